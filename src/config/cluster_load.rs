//! Settings of the load that a replica puts on the cluster. They apply only with `--store scylla`.

use std::time::Duration;

use clap::Args;

/// Settings of the load that a replica puts on the cluster.
#[derive(Args, Clone, Debug)]
pub struct ClusterLoadSettings {
    /// Reads that a replica sends to the cluster at once, and as many writes; further ones wait for a quarter of a second
    #[arg(long, env = "HANDBILL_SCYLLA_IN_FLIGHT", value_name = "OPERATIONS", default_value_t = 64, value_parser = clap::value_parser!(u16).range(4..))]
    pub scylla_in_flight: u16,
    /// Share of --scylla-in-flight, in percent, that one page or one of 64 token ranges may have
    #[arg(long, env = "HANDBILL_SCYLLA_PAGE_SHARE", value_name = "PERCENT", default_value_t = 25, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub scylla_page_share: u8,
    /// After two reads in a row of a page or token range that take longer than this (100ms to 2s), further ones are refused
    #[arg(long, env = "HANDBILL_SCYLLA_SILENT_AFTER", value_name = "DURATION", default_value = "1s", value_parser = silent_after)]
    pub scylla_silent_after: Duration,
    /// How long such reads are refused before one is let in to try (at most 1m); 0s refuses none
    #[arg(long, env = "HANDBILL_SCYLLA_REFUSE_FOR", value_name = "DURATION", default_value = "250ms", value_parser = refuse_for)]
    pub scylla_refuse_for: Duration,
}

/// An operation ends after 2.5 s, so a longer time would refuse nothing. A shorter one would take a busy database for a
/// sick one.
fn silent_after(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (Duration::from_millis(100)..=Duration::from_secs(2)).contains(&duration) {
        Ok(duration)
    } else {
        Err("give a time from 100ms to 2s".to_owned())
    }
}

fn refuse_for(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if duration <= Duration::from_mins(1) { Ok(duration) } else { Err("give a time of at most 1m".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        settings: ClusterLoadSettings,
    }

    fn parse(args: &[&str]) -> Result<ClusterLoadSettings, String> {
        let line = Line::try_parse_from([&["handbill"], args].concat());
        line.map(|line| line.settings).map_err(|error| error.to_string())
    }

    #[test]
    fn values_that_make_no_sense_are_refused_by_the_name_of_their_option() {
        for (option, wrong) in [
            ("--scylla-in-flight", &["0", "3", "-1", "many"][..]),
            ("--scylla-page-share", &["0", "101", "25%"]),
            ("--scylla-silent-after", &["0s", "99ms", "3s", "soon"]),
            ("--scylla-refuse-for", &["2m", "1"]),
        ] {
            for value in wrong {
                let refusal = parse(&[&format!("{option}={value}")]).unwrap_err();
                assert!(refusal.contains(option), "{option} {value}: {refusal}");
            }
        }
        let settings = parse(&["--scylla-silent-after", "2s", "--scylla-refuse-for", "0s"]).unwrap();
        assert_eq!(
            (settings.scylla_silent_after, settings.scylla_refuse_for),
            (Duration::from_secs(2), Duration::ZERO)
        );
    }
}
