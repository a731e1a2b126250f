// The home page: writing, previewing and publishing, and the list of pages published from this browser.

import { draft, dropDraft, exportKeys, forget, importKeys, keep, pages, saveDraft } from './keys.js';
import { form, preview } from './preview.js';
import { $, Problem, ask, copy, count, download, editLink, onShortcut, once, say } from './ui.js';

const [editor, title, content] = [$('editor'), $('title'), $('content')];

/** The page that was just published, and whether its key is safe: kept here, copied or downloaded. */
let published = null;
let isSafe = true;
let isDraftStored = true;

// The draft

let timer;
function store() {
    clearTimeout(timer);
    const fields = { title: title.value, content: content.value };
    if (fields.title || fields.content) isDraftStored = saveDraft('', fields);
    else dropDraft('');
}

function changed() {
    count(title, content);
    clearTimeout(timer);
    timer = setTimeout(store, 300);
}

editor.addEventListener('input', changed);
addEventListener('pagehide', () => !published && store());
document.addEventListener('visibilitychange', () => document.hidden && !published && store());
addEventListener('beforeunload', (event) => {
    const unsaved = !published && !isDraftStored && (title.value || content.value);
    if (!isSafe || unsaved) event.preventDefault();
});

// A heading with markup is left in the text: the server takes its text as the title.
const HEADING = /^\uFEFF?#[ \t]+([^\n*_`[\]<>&\\~]*?)[ \t]*#*[ \t]*(?:\n+|$)/;

/** Moves a leading heading to the title, if there is none yet. */
function liftHeading() {
    const found = HEADING.exec(content.value);
    const rest = found && content.value.slice(found[0].length);
    if (title.value.trim() || !found?.[1] || !rest) return;
    title.value = found[1];
    content.value = rest;
    say('The first heading became the title.');
    changed();
}

content.addEventListener('paste', () => setTimeout(liftHeading));

async function openFile(file) {
    if (!file) return;
    let text;
    try {
        text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    } catch {
        throw new Problem(`${file.name} is not a text in UTF-8. Nothing was changed.`);
    }
    if (content.value.trim() && !confirm(`Replace the text by ${file.name}?`)) return;
    content.value = text;
    title.value = '';
    say(`${file.name} was opened.`);
    liftHeading();
    if (!title.value && !/^#/m.test(content.value)) title.value = file.name.replace(/\.\w{1,8}$/, '');
    changed();
    store();
}

$('file').addEventListener('change', once($('file'), async () => {
    await openFile($('file').files[0]);
    $('file').value = '';
}));
for (const type of ['dragenter', 'dragover', 'dragleave', 'drop']) {
    editor.addEventListener(type, (event) => {
        if (!event.dataTransfer?.types.includes('Files')) return;
        event.preventDefault();
        content.classList.toggle('dropping', type === 'dragenter' || type === 'dragover');
    });
}
editor.addEventListener('drop', once(editor, (event) => openFile(event.dataTransfer?.files[0])));

// Publishing

const publishButton = editor.querySelector('[value=publish]');
const previewButton = editor.querySelector('[value=preview]');

const publish = once(publishButton, async () => {
    store();
    if (!count(title, content)) throw new Problem('The text or its title is too long. Shorten it, or split it over several pages.');
    say('Publishing…');
    const { body } = await ask('/', { method: 'POST', body: form(title.value, content.value, 'publish') });
    const heading = title.value.trim() || body.slug;
    published = { slug: body.slug, url: body.url, title: heading, edit_key: body.edit_key, created_at: body.created_at };
    // The key is stored before anything else happens to the page.
    isSafe = keep(published);
    dropDraft('');
    show(isSafe);
});

const show = (isKept) => {
    const { url, edit_key: key } = published;
    editor.hidden = true;
    $('preview').hidden = true;
    $('address').href = url;
    $('address').textContent = url;
    $('key').textContent = key;
    $('kept').textContent = isKept
        ? 'The key is kept in this browser; a private window forgets it when it is closed. Keep a copy elsewhere too: nobody can recover a lost key. On a computer that others use, forget it here.'
        : 'This browser does not keep it. Copy it now: it is shown this once, and nobody can recover a lost key.';
    $('forget-key').hidden = !isKept;
    $('published').hidden = false;
    list();
    say('');
    $('published-name').focus();
    scrollTo(0, 0);
};

editor.addEventListener('submit', (event) => {
    event.preventDefault();
    if (event.submitter === previewButton) showPreview();
    else publish();
});
const showPreview = once(previewButton, () => preview(title.value, content.value));
onShortcut(editor, () => content.value ? publish() : say('Write a text first.'));

// The key of the page that was just published

const safe = (isDone) => { isSafe ||= isDone; };
$('copy-address').addEventListener('click', () => copy(published.url, 'The address'));
$('copy-key').addEventListener('click', async () => safe(await copy(published.edit_key, 'The key')));
$('copy-link').addEventListener('click', async () =>
    safe(await copy(editLink(published.slug, published.edit_key), 'The edit link')));
$('save-key').addEventListener('click', () => {
    download(`${published.slug}.key.txt`, `${published.url}\n${published.edit_key}\n`);
    safe(true);
});
$('forget-key').addEventListener('click', () => {
    forget(published.slug);
    isSafe = false;
    $('forget-key').hidden = true;
    $('kept').textContent = 'This browser has forgotten it. Copy it now, if you have not: it is shown until you leave this page.';
    list();
});
$('another').addEventListener('click', () => {
    if (!isSafe && !confirm('The key is not kept anywhere. Leave without it?')) return;
    published = null;
    isSafe = true;
    $('key').textContent = '';
    $('published').hidden = true;
    title.value = '';
    content.value = '';
    editor.hidden = false;
    changed();
    title.focus();
});

// The pages published from this browser

function element(name, text, attributes) {
    const made = Object.assign(document.createElement(name), attributes);
    made.textContent = text;
    return made;
}

function list() {
    const kept = pages();
    $('pages').replaceChildren(...kept.map((page) => {
        const item = document.createElement('li');
        const forgetIt = element('button', 'Forget', { type: 'button', ariaLabel: `Forget the key of ${page.title}` });
        forgetIt.addEventListener('click', () => {
            if (!confirm(`Forget the key of “${page.title}”? Without another copy, the page can never be changed or deleted.`)) return;
            forget(page.slug);
            list();
            say('The key was forgotten.');
        });
        item.append(
            element('a', page.title, { href: `/${page.slug}`, dir: 'auto' }),
            element('time', page.created_at.slice(0, 10), { dateTime: page.created_at }),
            element('a', 'Edit', { href: `/${page.slug}/edit`, ariaLabel: `Edit ${page.title}` }),
            forgetIt,
        );
        return item;
    }));
    $('mine-hint').hidden = $('export').hidden = kept.length === 0;
    $('mine-none').hidden = kept.length > 0;
}

$('export').addEventListener('click', () => download('handbill-keys.jsonl', exportKeys()));
$('import').addEventListener('change', once($('import'), async () => {
    let added;
    try {
        // The pages' addresses have the service's own origin, which may not be the one that this browser uses.
        const own = document.querySelector('link[rel=canonical]')?.href ?? location.href;
        added = importKeys(await $('import').files[0].text(), [location.origin, new URL(own).origin]);
    } catch {
        throw new Problem('This is not a file of exported keys. Nothing was changed.');
    } finally {
        $('import').value = '';
    }
    list();
    say(added === 1 ? 'One key was added.' : `${added} keys were added.`);
}));
addEventListener('storage', list);

const before = draft('');
if (before && !title.value && !content.value) {
    title.value = before.title;
    content.value = before.content;
    say('Your draft is back.');
}
count(title, content);
$('pick').hidden = false;
$('mine').hidden = false;
list();
