// The sheet: its two fields, help while typing, how long the fields are, whether they may be sent, and when they are stored.

import { $, Problem, mark, say } from './ui.js';

export const [title, content] = [$('title'), $('content')];

/** The limits in force, which the page names beside the counter. */
const [MAX_BYTES, MAX_CHARS] = [$('count').dataset.maxBytes, $('count').dataset.maxChars].map(Number);

/** The counter names the limit from this part of it on. */
const NEAR = 0.8;

const WORDS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}][\p{L}\p{M}\p{N}'’-]*/gu;

const kilobytes = (bytes) => `${Math.ceil(bytes / 102.4) / 10}`;
const size = () => new TextEncoder().encode(content.value).length;

/** What to say if the text is too long for a page, else nothing. */
export const excess = () => (size() > MAX_BYTES ? `${Math.ceil(size() / 1024)} KB of ${MAX_BYTES / 1024} KB` : '');

/** Whether a title is so wide that the page shows it smaller. The server has the same rule. */
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

// Such a line stands alone: it is empty, part of a list, a quote, code, a table, a heading or a rule.
const ALONE = /^\s*$|^[ \t]*([-*+]\s|[-*_=]+\s*$|[>#]|```|~~~|\d{1,9}[.)]\s)|^( {4}|\t)|\|/;

/** The text with a backslash behind each line that Markdown joins with the next one. */
function withBreaks() {
    let isCode = false;
    return content.value.split('\n').map((line, at, lines) => {
        const isFence = /^\s*(```|~~~)/.test(line);
        if (isFence) isCode = !isCode;
        const isAlone = isFence || isCode || [line, lines[at + 1] ?? ''].some((line) => ALONE.test(line));
        return isAlone || /(\\| {2})$/.test(line) ? line : `${line}\\`;
    }).join('\n');
}

$('breaks').addEventListener('click', () => {
    content.focus();
    replace(0, content.value.length, withBreaks());
});

let state = '';

/** Shows the count, and returns the first field that is too long. */
export function count() {
    const over = size() - MAX_BYTES;
    const chars = [...title.value.trim()].length;
    const words = content.value.match(WORDS)?.length ?? 0;
    $('count').textContent = [
        words && `${words.toLocaleString('en')} ${words === 1 ? 'word' : 'words'}`,
        over > 0 ? `${kilobytes(over)} KB too long` : over + MAX_BYTES >= NEAR * MAX_BYTES && `${kilobytes(over + MAX_BYTES)} of ${kilobytes(MAX_BYTES)} KB`,
        state,
    ].filter(Boolean).join(' · ');
    $('count').classList.toggle('over', over > 0);
    $('breaks').hidden = withBreaks() === content.value;
    content.setAttribute('aria-invalid', over > 0);
    const isLongTitle = chars > MAX_CHARS;
    if (isLongTitle) mark(title, `Title too long: ${chars} of ${MAX_CHARS} characters.`);
    grow();
    return over > 0 ? content : isLongTitle ? title : null;
}

let warned;
/** Fails if the text must not be sent: it is empty, does not fit, or holds what looks like a key, which gets one warning. */
export function check() {
    for (const field of [title, content]) mark(field, '');
    if (!content.value) throw new Problem('Write some text first.', { field: content });
    const field = count();
    if (field) {
        throw new Problem(field === title ? $('title-problem').textContent
            : `Text too long: ${excess()}. Shorten it, or split it into several pages.`, { field });
    }
    const keys = `${title.value} ${content.value}`.match(/hbk_[0-9A-Za-z]{43}/g)?.join();
    if (!keys || keys === warned) return;
    warned = keys;
    const { dataset, textContent } = content.form.querySelector('.actions .main');
    const name = dataset.words ?? textContent;
    throw new Problem(`${$('status').dataset.keyWarning} Not published yet: press ${name} again if you mean it.`);
}

export function fill(text) {
    title.value = text.title;
    content.value = text.content;
    for (const field of [title, content]) mark(field, '');
    count();
}

/** The text as a form. A file keeps its line breaks; a field's would become CR LF. */
export function form(action) {
    const fields = new FormData();
    if (title.value.trim()) fields.append('title', title.value);
    fields.append('content', new Blob([content.value], { type: 'text/markdown' }), '');
    fields.append('action', action);
    return fields;
}

/** Calls `store` while the sheet is written and when it is left, shows what it returns, and warns before that if `isUnsafe()`. */
export function guard(store, isUnsafe) {
    let timer;
    const keep = () => {
        clearTimeout(timer);
        state = store();
        count();
    };
    content.form.addEventListener('input', ({ target }) => {
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

// Help while typing. Each change can be undone like typed text.

/** Replaces the text between `start` and `end`, and then selects the part of it from `from` to `to`. */
function replace(start, end, text, from = text.length, to = from) {
    content.setSelectionRange(start, end);
    // Only this keeps the history of changes.
    document.execCommand(text ? 'insertText' : 'delete', false, text);
    content.setSelectionRange(start + from, start + to);
}

const selection = () => [content.value, content.selectionStart, content.selectionEnd];

/** Puts `mark` around the selection, or takes it away if it is there. */
function surround(mark) {
    let [value, start, end] = selection();
    while (start < end && /\s/.test(value[start])) start += 1;
    while (end > start && /\s/.test(value[end - 1])) end -= 1;
    const text = value.slice(start, end);
    // Two stars are bold, one is italic, three are both.
    const stars = Math.min(/\**$/.exec(value.slice(0, start))[0].length, /^\**/.exec(value.slice(end))[0].length);
    if (mark.length === 2 ? stars >= 2 : stars % 2 === 1) replace(start - mark.length, end + mark.length, text, 0, text.length);
    else replace(start, end, mark + text + mark, mark.length, mark.length + text.length);
}

const ADDRESS = /^https?:\/\/[^\s<>]+$/i;

const inLink = (address) => address.replaceAll('(', '%28').replaceAll(')', '%29');

function link() {
    const [value, start, end] = selection();
    const text = value.slice(start, end);
    if (ADDRESS.test(text)) replace(start, end, `[](${inLink(text)})`, 1);
    else replace(start, end, `[${text}](https://)`, text ? text.length + 3 : 1, text ? text.length + 11 : 1);
}

/** Makes a link of the words over which an address is pasted. */
function paste(event) {
    const address = event.clipboardData?.getData('text/plain').trim() ?? '';
    const [value, start, end] = selection();
    const text = value.slice(start, end);
    // Behind one of these it is already part of a link, or of code.
    const isInside = /[(<"'`=/]$/.test(value.slice(0, start));
    if (!ADDRESS.test(address) || isInside || !text.trim() || /[\n[\]]/.test(text) || ADDRESS.test(text.trim())) return;
    event.preventDefault();
    replace(start, end, `[${text}](${inLink(address)})`);
}

const ITEM = /^([ \t]*)([-*+]|(\d{1,8})([.)]))([ \t]+)(\[[ xX]\][ \t]+)?/;

/** Enter at the end of an item begins the next item. In an empty item it ends the list with an empty line. */
function goOn(event) {
    const [value, start, end] = selection();
    const line = value.slice(value.lastIndexOf('\n', start - 1) + 1, start);
    const [whole, lead, bullet, number, dot, space, box] = ITEM.exec(line) ?? [];
    if (start !== end || !whole) return;
    event.preventDefault();
    const isEmpty = whole === line && !/\S/.test(value.slice(start).split('\n', 1)[0]);
    if (isEmpty) return replace(start - line.length, start, '\n');
    replace(start, end, `\n${lead}${number ? `${Number(number) + 1}${dot}` : bullet}${space}${box ? '[ ] ' : ''}`);
}

/** A line break within a paragraph. */
function breakLine(event) {
    const [value, start, end] = selection();
    if (start === 0 || value[start - 1] === '\n') return;
    event.preventDefault();
    replace(start, end, '\\\n');
}

const inText = { b: () => surround('**'), i: () => surround('*'), k: link };

/** Helps in the sheet. Ctrl+Enter or ⌘+Enter calls `send`, Ctrl+S or ⌘+S `save`. */
export function helpTyping(send, save) {
    content.form.addEventListener('keydown', (event) => {
        if (event.isComposing || event.altKey) return;
        const { target, shiftKey } = event;
        const key = event.key.toLowerCase();
        const isWriting = target === content && !content.readOnly;
        let act;
        if (event.ctrlKey || event.metaKey) {
            if (key === 'enter') act = send;
            else if (key === 's' && !shiftKey) act = save;
            else if (isWriting && !shiftKey) act = inText[key];
        } else if (key === 'enter' && target === title) {
            act = () => content.focus();
        } else if (key === 'enter' && isWriting) {
            (shiftKey ? breakLine : goOn)(event);
        }
        if (!act) return;
        event.preventDefault();
        act();
    });
    content.addEventListener('paste', paste);
}
