// The home page: writing, previewing, publishing, and the pages published from this browser.

import { dropDraft, exportKeys, forget, importKeys, isPage, keep, otherDrafts, pages, saveDraft, takeDraft } from './keys.js';
import { form, preview } from './preview.js';
import { $, Problem, ask, check, content, copy, count, download, editLink, fill, guard, onShortcut, once, say, title } from './ui.js';

const editor = $('editor');

/** The page that was just published, and whether its key is safe: kept here, copied or downloaded. */
let published = null;
let isSafe = true;

let isDraftStored = true;
function store() {
    // The fields of a page that was published are empty.
    const isEmpty = !title.value && !content.value;
    isDraftStored = isEmpty || saveDraft('', { title: title.value, content: content.value });
    if (isEmpty) dropDraft();
}

function open(draft, words) {
    takeDraft(draft);
    fill(draft);
    say(words);
}

guard(editor, store, () => !isSafe || !isDraftStored);
$('other-draft').addEventListener('click', () => {
    if (!isSafe) return;
    store();
    // The oldest: each has its turn.
    open(otherDrafts('').at(-1), 'This is another draft. The one before is kept.');
    list();
});

// A heading with markup is left to the server, which takes its text as the title.
const HEADING = /^\uFEFF?#[ \t]+([^\n*_`[\]<>&\\~]*?)[ \t]*#*[ \t]*(?:\n+|$)/;

/** Moves a leading heading to the title, if there is none yet. */
function liftHeading() {
    const found = HEADING.exec(content.value);
    const rest = found && content.value.slice(found[0].length);
    if (title.value.trim() || !found?.[1] || !rest) return;
    title.value = found[1];
    content.value = rest;
    say('The first heading became the title.');
    count();
    store();
}

content.addEventListener('paste', () => setTimeout(liftHeading));

async function openFile(file) {
    if (!file || !isSafe) return;
    let text;
    try {
        text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    } catch {
        throw new Problem(`${file.name} is not a text in UTF-8. Nothing was changed.`);
    }
    if (content.value.trim()) {
        if (!confirm(`Replace the text by ${file.name}?`)) return;
        title.value = '';
    }
    content.value = text;
    say(`${file.name} was opened.`);
    liftHeading();
    if (!title.value && !/^#/m.test(content.value)) title.value = file.name.replace(/\.\w{1,8}$/, '');
    count();
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
        if (type === 'drop') drop(event);
    });
}
const drop = once(editor, (event) => openFile(event.dataTransfer.files[0]));

// Publishing

const publishButton = editor.querySelector('[value=publish]');
const previewButton = editor.querySelector('[value=preview]');

const UNKNOWN = 'If the page was published, nobody has its key. Your text is still here: publish it again.';

const publish = once(publishButton, async () => {
    store();
    check();
    say('Publishing…');
    let made;
    // The key may be on its way.
    isSafe = false;
    try {
        ({ body: made } = await ask('/', { method: 'POST', body: form('publish'), expect: isPage, unknown: UNKNOWN }));
    } finally {
        isSafe = true;
    }
    published = { ...made, title: title.value.trim() || made.slug };
    // The key is stored before anything else happens. The draft may take the room that it needs.
    isSafe = keep(published);
    dropDraft();
    isSafe ||= keep(published);
    title.value = content.value = '';
    editor.hidden = $('preview').hidden = true;
    $('address').href = $('address').textContent = published.url;
    $('key').textContent = published.edit_key;
    showKept(isSafe);
    $('published').hidden = false;
    list();
    say('');
    $('published-name').focus();
    scrollTo(0, 0);
});

function showKept(isKept) {
    $('kept').hidden = $('forget-key').hidden = !isKept;
    $('not-kept').hidden = isKept;
}

editor.addEventListener('submit', (event) => {
    event.preventDefault();
    if (event.submitter === previewButton) showPreview();
    else publish();
});
const showPreview = once(previewButton, preview);
onShortcut(editor, () => content.value ? publish() : say('Write a text first.'));

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
    showKept(false);
    say('This browser has forgotten the key.');
    list();
});
$('another').addEventListener('click', () => {
    if (!isSafe && !confirm('The key is not kept anywhere. Leave without it?')) return;
    published = null;
    isSafe = true;
    $('key').textContent = '';
    $('published').hidden = true;
    editor.hidden = false;
    count();
    title.focus();
});

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
    $('other-draft').hidden = otherDrafts('').length === 0;
}

$('export').addEventListener('click', () => download('handbill-keys.jsonl', exportKeys()));
$('import').addEventListener('change', once($('import'), async () => {
    // The service's own origin may not be the one that this browser uses.
    const own = document.querySelector('link[rel=canonical]')?.href ?? location.href;
    const text = await $('import').files[0].text();
    $('import').value = '';
    const { added, differ, none } = importKeys(text, [location.origin, new URL(own).origin]);
    list();
    say(`Keys added: ${added}. ${differ ? `Pages with another key here, which stays: ${differ}. ` : ''}${
        none ? `Lines that are no key of this site: ${none}.` : ''}`);
}));

// The fields may have a text already: the browser's, after a reload or a crash, or the server's, with an error.
function restore() {
    const drafts = otherDrafts('');
    const words = $('status').textContent || 'Your draft is back.';
    const own = drafts.find((draft) => [draft.title, ''].includes(title.value) && [draft.content, ''].includes(content.value));
    if (own) {
        open(own, words);
    } else if (drafts[0] && !content.defaultValue) {
        store();
        if (isDraftStored) open(drafts[0], words);
    }
    count();
    $('pick').hidden = $('mine').hidden = false;
    list();
}

// Another tab may change them.
for (const event of ['storage', 'pageshow']) addEventListener(event, list);
// After a crash the browser fills in the fields when the document is complete.
if (document.readyState === 'complete') restore();
else addEventListener('load', restore);
