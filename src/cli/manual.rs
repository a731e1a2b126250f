//! Completions for shells and the man pages, both made from the description of the command line.

use std::path::Path;
use std::{fs, io};

use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::Man;

/// Offers the kept pages of the commands for one page, besides what clap offers. bash splits words at colons, so it gets slugs.
const KEPT_PAGES: [(Shell, &str); 3] = [
    (
        Shell::Bash,
        r#"
_handbill_pages() {
    _handbill "$@"
    case "${COMP_WORDS[1]} $2" in
    *\ -*) ;;
    update\ * | edit\ * | get\ * | delete\ * | key\ *)
        COMPREPLY+=($(compgen -W "$(handbill list 2>/dev/null | cut -f1 | sed 's|.*/||')" -- "$2")) ;;
    esac
}
complete -F _handbill_pages -o bashdefault -o default handbill
"#,
    ),
    (
        Shell::Fish,
        r#"
complete -c handbill -n "__fish_seen_subcommand_from update edit get delete key" -a "(handbill list 2>/dev/null | cut -f1,3)"
"#,
    ),
    (
        Shell::Zsh,
        r#"
_handbill_pages() {
    compadd -- ${(f)"$(handbill list 2>/dev/null | cut -f1)"}
    _files
}
"#,
    ),
];

/// The script that completes `command` in `shell`.
pub(super) fn completions(shell: Shell, mut command: Command) -> String {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    generate(shell, &mut command, name, &mut script);
    let script = text(script);
    match (shell, KEPT_PAGES.iter().find(|(of, _)| *of == shell)) {
        // zsh reads the functions before the last lines, which call the first of them.
        (Shell::Zsh, Some((_, pages))) => with_pages_in_zsh(&script).replacen("\nif [ ", &format!("{pages}\nif [ "), 1),
        (_, pages) => script + pages.map_or("", |(_, pages)| pages),
    }
}

/// In zsh each argument names the function that completes it.
fn with_pages_in_zsh(script: &str) -> String {
    let line = |line: &str| match line.strip_suffix(":_default' \\") {
        Some(page) if page.starts_with("':page -- ") => format!("{page}:_handbill_pages' \\\n"),
        _ => format!("{line}\n"),
    };
    script.lines().map(line).collect()
}

/// The man page of `command`, in roff.
pub(super) fn man_page(command: Command) -> String {
    let mut page = Vec::new();
    let rendered = Man::new(command.disable_help_subcommand(true)).manual("Handbill").render(&mut page);
    rendered.expect("writing into memory cannot fail");
    text(page)
}

/// Writes the man pages of `command` and of all its subcommands into `directory`, which is created if it is missing.
pub(super) fn man_pages(command: Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(command, directory)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("the command line is described in UTF-8")
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn command() -> Command {
        let option = clap::Arg::new("listen").long("listen").env("HANDBILL_LISTEN").help("Where the service listens");
        let serve = Command::new("serve").about("Serve pages").arg(option.clone());
        Command::new("handbill").about("Publishes text posts").arg(option).subcommand(serve)
    }

    #[test]
    fn each_shell_completes_every_option_and_subcommand() {
        for shell in Shell::value_variants() {
            let script = completions(*shell, command());
            for word in ["handbill", "serve", "listen"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn the_man_page_has_every_option_with_its_variable() {
        let page = man_page(command());
        for text in [".TH handbill 1", "\\-\\-listen", "HANDBILL_LISTEN", "Where the service listens", "serve"] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
