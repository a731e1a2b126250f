// The sheet: its two fields, how long they are, whether they may be sent, and when they are stored.

import { $, Problem, mark, say } from './ui.js';

export const [title, content] = [$('title'), $('content')];

/** The limits in force, which the page names beside the counter. */
const [MAX_BYTES, MAX_CHARS] = [$('count').dataset.maxBytes, $('count').dataset.maxChars].map(Number);

/** From this part of the limit on, the counter names it. */
const NEAR = 0.8;

const WORDS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}][\p{L}\p{M}\p{N}'’-]*/gu;

const kilobytes = (bytes) => `${Math.ceil(bytes / 102.4) / 10}`;

/** Whether a title is so wide that the page shows it smaller. The server decides in the same way. */
export const isLong = (text) => [...text].reduce((sum, letter) => sum + (letter < '\u1100' ? 1 : 2), 0) > 64;

// Firefox has no fields that grow with their text.
const grows = CSS.supports('field-sizing', 'content');
function grow() {
    title.classList.toggle('long', isLong(title.value));
    if (grows) return;
    const place = scrollY;
    for (const field of [title, content]) {
        field.style.blockSize = 'auto';
        field.style.blockSize = `${field.scrollHeight}px`;
    }
    scrollTo(scrollX, place);
}

let state = '';

/** Counts title and text, shows it, and returns whether both fit. */
export function count() {
    const bytes = new TextEncoder().encode(content.value).length;
    const chars = [...title.value.trim()].length;
    const words = content.value.match(WORDS)?.length ?? 0;
    const isOver = bytes > MAX_BYTES;
    const parts = [`${words.toLocaleString('en')} ${words === 1 ? 'word' : 'words'}`];
    if (state) parts.push(state);
    if (bytes >= NEAR * MAX_BYTES) parts.push(`${kilobytes(bytes)} of ${kilobytes(MAX_BYTES)} KB`);
    if (isOver) parts.push(`${(bytes - MAX_BYTES).toLocaleString('en')} bytes too long`);
    $('count').textContent = parts.join(' · ');
    $('count').classList.toggle('over', isOver);
    content.setAttribute('aria-invalid', isOver);
    if (chars > MAX_CHARS) mark(title, `The title has ${chars} characters. Up to ${MAX_CHARS} fit.`);
    grow();
    return !isOver && chars <= MAX_CHARS;
}

let warned;
/** Fails if the text must not be sent: it is empty, does not fit, or holds what looks like a key, of which this warns once. */
export function check() {
    for (const field of [title, content]) mark(field, '');
    if (!content.value) throw new Problem('Write some text first.', { field: content });
    if (!count()) {
        const field = content.getAttribute('aria-invalid') === 'true' ? content : title;
        throw new Problem(field === title
            ? `This title is too long. Up to ${MAX_CHARS} characters fit.`
            : 'This text is too long for one page. Shorten it, or split it over several pages.', { field });
    }
    const keys = `${title.value} ${content.value}`.match(/hbk_[0-9A-Za-z]{43}/g)?.join();
    if (!keys || keys === warned) return;
    warned = keys;
    throw new Problem($('status').dataset.keyWarning);
}

/** Puts a text into the fields. */
export function fill(text) {
    title.value = text.title;
    content.value = text.content;
    for (const field of [title, content]) mark(field, '');
    count();
}

/** The text as a form. The line breaks of a file stay as they are; those of a field would become CR LF. */
export function form(action, { withTitle = true } = {}) {
    const fields = new FormData();
    if (withTitle && title.value.trim()) fields.append('title', title.value);
    fields.append('content', new Blob([content.value], { type: 'text/markdown' }), '');
    fields.append('action', action);
    return fields;
}

/** Calls `store` while the sheet is written and when it is left, shows what it returns, and warns before that if `isUnsafe()`. */
export function guard(sheet, store, isUnsafe) {
    let timer;
    const keep = () => {
        clearTimeout(timer);
        state = store() ?? state;
        count();
    };
    sheet.addEventListener('input', ({ target }) => {
        if (target === title && /[\r\n]/.test(title.value)) title.value = title.value.replace(/[\r\n]+/g, ' ');
        mark(target, '');
        say('');
        count();
        clearTimeout(timer);
        timer = setTimeout(keep, 300);
    });
    addEventListener('pagehide', keep);
    addEventListener('resize', grow);
    document.addEventListener('visibilitychange', () => document.hidden && keep());
    addEventListener('beforeunload', (event) => {
        keep();
        if (isUnsafe()) event.preventDefault();
    });
    return keep;
}
