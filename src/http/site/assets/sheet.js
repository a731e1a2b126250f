// The sheet: its fields, help while typing, how long the fields are, whether they may be sent, and when they are stored.

import { TAKEN, dropDraft, isDraft, saveDraft, takeDraft } from './keys.js';
import { $, Problem, answer, mark, say } from './ui.js';

/** The fields of a page, by name. Each is a text area of the sheet with its name as `id`. */
const fields = Object.fromEntries([...document.querySelectorAll('.sheet textarea')].map((field) => [field.id, field]));
export const { title, content } = fields;
const names = Object.keys(fields);

const [MAX_BYTES, MAX_CHARS] = [$('count').dataset.maxBytes, $('count').dataset.maxChars].map(Number);

const WORDS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}][\p{L}\p{M}\p{N}'’-]*/gu;

const size = () => new TextEncoder().encode(content.value).length;
const used = () => `${Math.ceil(size() / 1024)} of ${MAX_BYTES / 1024} KB`;

/** What to say if the text is too long for a page, else nothing. */
export const excess = () => (size() > MAX_BYTES ? `Text too long: ${used()}` : '');

// Such a line stands alone: it is empty, part of a list, a quote, code, a table, a heading or a rule.
const ALONE = /^\s*$|^[ \t]*([-*+]\s|[-*_=]+\s*$|[>#]|```|~~~|\d{1,9}[.)]\s)|^( {4}|\t)|\|/;

/** A break behind a line of fewer characters was typed to be seen. Longer lines may be a file's that is wrapped. */
const SHORT = 50;

const isFence = (line) => /^\s*(```|~~~)/.test(line);

// Front matter is no text. The server has a narrower rule.
const FRONT_MATTER = /^---[ \t]*\n(?:(?:[^\s:]+:(?!\S)|-\s|[ \t]).*\n)+?---[ \t]*(?=\n|$)/;

/** Each line of `text`, and whether Markdown joins it with the next one. */
function joined(text) {
    const front = FRONT_MATTER.exec(text)?.[0].split('\n').length ?? 0;
    let isCode = false;
    return text.split('\n').map((line, at, lines) => {
        if (isFence(line)) isCode = !isCode;
        const isAlone = at < front || isFence(line) || isCode || [line, lines[at + 1] ?? ''].some((line) => ALONE.test(line));
        return [line, !isAlone && !/(\\| {2})$/.test(line)];
    });
}

const joinsShort = (text) => joined(text).some(([line, isJoined]) => isJoined && line.length < SHORT);

/** Puts two spaces behind each line that Markdown joins with the next one: a break that nobody sees in the text. */
function keepBreaks() {
    content.focus();
    replace(0, content.value.length, joined(content.value).map(([line, isJoined]) => (isJoined ? `${line}  ` : line)).join('\n'));
}

$('breaks').addEventListener('click', () => {
    keepBreaks();
    if (document.activeElement !== content) $('preview').focus();
});

const act = $('save') ? 'Save' : 'Publish';

/** Whether the writer of this text wants its short lines joined. */
let mayJoin = false;

/** Asks until it is answered whether short lines stay lines, unless `before` had such lines too. Returns whether it asks. An answer calls `send`. */
export function askForBreaks(send, before = '') {
    if (mayJoin || joinsShort(before) || !joinsShort(content.value)) return false;
    const keep = answer(`${act} with line breaks`, () => {
        keepBreaks();
        send();
    });
    say('Some of your lines will run together into one paragraph.', '', keep, answer(`${act} as it is`, () => {
        mayJoin = true;
        send();
    }));
    keep.focus();
    return true;
}

let state = '';

export function count() {
    const words = content.value.match(WORDS)?.length ?? 0;
    const counted = words && `${words.toLocaleString('en')} ${words === 1 ? 'word' : 'words'}`;
    $('count').textContent = [counted, excess() || (size() >= 0.8 * MAX_BYTES && used()), state].filter(Boolean).join(' · ');
    $('count').classList.toggle('over', Boolean(excess()));
    $('joined').hidden = !joined(content.value).some(([, isJoined]) => isJoined);
    content.setAttribute('aria-invalid', Boolean(excess()));
    const chars = [...title.value.trim()].length;
    if (chars > MAX_CHARS) mark(title, `Title too long: ${chars} of ${MAX_CHARS} characters.`);
}

let warned;
/** Fails if the text must not be sent: it is empty, does not fit, or holds what looks like a key, which gets one warning. */
export function check() {
    for (const field of [title, content]) mark(field, '');
    // Enter has begun a last item that nobody has written.
    const last = content.value.slice(begun[0]);
    if (last && ITEM.exec(last)?.[0] === last) replace(begun[0], content.value.length, '');
    if (!content.value) throw new Problem('Write some text first.', { field: content });
    count();
    if (excess()) throw new Problem(`${excess()}. Shorten it, or split it into several pages.`, { field: content });
    if ($('title-problem').textContent) throw new Problem($('title-problem').textContent, { field: title });
    const keys = Object.values(sheet()).join(' ').match(/hbk_[0-9A-Za-z]{43}/g)?.join();
    if (!keys || keys === warned) return;
    warned = keys;
    throw new Problem(`${$('status').dataset.keyWarning} Not published yet: press ${act} again if you mean it.`);
}

export function fill(text) {
    mayJoin = false;
    for (const name of names) {
        fields[name].value = text[name] ?? '';
        mark(fields[name], '');
    }
    count();
}

/** The text as a form. A file keeps its line breaks; a field's would become CR LF. */
export function form(action) {
    const form = new FormData();
    for (const [name, text] of Object.entries(sheet())) {
        if (name === 'content') form.append(name, new Blob([text], { type: 'text/markdown' }), '');
        else if (text.trim()) form.append(name, text);
    }
    form.append('action', action);
    return form;
}

export const sheet = () => Object.fromEntries(names.map((name) => [name, fields[name].value]));

/** What the sheet would show of `page`: a field has LF alone, whatever the page's source has. */
export const textOf = (page) => Object.fromEntries(names.map((name) => [name, (page[name] ?? '').replace(/\r\n?/g, '\n')]));

/** The names of the fields in which two texts differ. */
export const differing = (one, other) => names.filter((name) => (one[name] ?? '') !== (other[name] ?? ''));

/**
 * Keeps the draft of the page `slug` while the sheet is written and when it is left: what `draft()` returns, or none. The counter
 * says so in `words`. Leaving warns if the draft is not stored, or unless `isSafe()`.
 */
export function guard(slug, draft, words, isSafe) {
    let timer;
    let isStored = true;
    const keep = () => {
        clearTimeout(timer);
        const fields = draft();
        const refusal = fields ? saveDraft(slug, fields) : dropDraft(slug);
        isStored = !refusal;
        state = fields ? refusal || words : '';
        count();
        if (refusal === TAKEN) {
            say(`${TAKEN}.`, 'bad', answer('Save it from here', () => {
                takeDraft(slug);
                keep();
            }));
        }
    };
    content.form.addEventListener('input', ({ target }) => {
        // The form has the chooser of files too.
        if (!Object.values(fields).includes(target)) return;
        if (target !== content && /[\r\n]/.test(target.value)) target.value = target.value.replace(/[\r\n]+/g, ' ');
        mark(target, '');
        say('');
        count();
        clearTimeout(timer);
        timer = setTimeout(keep, 300);
    });
    addEventListener('pagehide', keep);
    addEventListener('storage', (event) => event.newValue && isDraft(event, slug) && keep());
    document.addEventListener('visibilitychange', () => document.hidden && keep());
    addEventListener('beforeunload', (event) => {
        keep();
        if (!isStored || !isSafe()) event.preventDefault();
    });
    return keep;
}

/** A browser types so many lines in 100 ms. For each line it looks at all. */
const MAX_TYPED_LINES = 100;

/** Replaces the text between `start` and `end`, as typing does, and then selects the part of it from `from` to `to`. */
function replace(start, end, text, from = text.length, to = from) {
    content.setSelectionRange(start, end);
    // Only this keeps the history of changes. The preview may hide the field, which takes no commands then.
    if (text.split('\n', MAX_TYPED_LINES).length === MAX_TYPED_LINES || !document.execCommand(text ? 'insertText' : 'delete', false, text)) {
        content.setRangeText(text);
        content.dispatchEvent(new InputEvent('input', { bubbles: true }));
    }
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

/** Where Enter has begun an item, where the item's marker ends, and where Enter was pressed in which text. */
let begun = [0, Infinity];

/** A browser takes back more than this at once, or nothing. */
const MAX_STEPS = 9;

/** Enter at the end of an item begins the next item. In an empty item it ends the list with an empty line. */
function goOn(event) {
    const [value, start, end] = selection();
    const line = value.slice(value.lastIndexOf('\n', start - 1) + 1, start);
    const [whole, lead, bullet, number, dot, space, box] = ITEM.exec(line) ?? [];
    if (start !== end || !whole || value.slice(0, start).split('\n').filter(isFence).length % 2) return;
    event.preventDefault();
    const isEmpty = whole === line && !/\S/.test(value.slice(start).split('\n', 1)[0]);
    if (isEmpty) return replace(start - line.length, start, '\n');
    const marker = `${number ? `${Number(number) + 1}${dot}` : bullet}${space}${box ? '[ ] ' : ''}`;
    replace(start, end, `\n${lead}${marker}`);
    begun = [content.selectionStart - marker.length, content.selectionStart, start, value];
}

/** A marker that a person types behind Enter's takes its place, and so do the blanks before a text that goes on with the item. */
function takeMarker({ data }) {
    const [value, start] = selection();
    const typed = value.slice(begun[1], start);
    const isOther = /^[ \t]*([-*+]|\d{1,8}[.)]) $/.test(typed) || (/^[ \t]{2,}\S/.test(typed) && !/^\s+([-*+]|\d{1,8}[.)]?)$/.test(typed));
    if (!data || !isOther) return;
    const [from, , at, before] = begun;
    // Replacing is input too.
    begun = [0, Infinity];
    // One Undo is to lead to the text before Enter.
    for (let step = 0; step < MAX_STEPS && content.value !== before; step += 1) document.execCommand('undo');
    if (content.value === before) replace(at, at, value.slice(at, from) + typed);
    else replace(0, content.value.length, value.slice(0, from) + typed + value.slice(start), from + typed.length);
}

function breakLine(event) {
    const [value, start, end] = selection();
    if (!start || value[start - 1] === '\n') return;
    event.preventDefault();
    replace(start, end, '  \n');
}

const inText = { b: () => surround('**'), i: () => surround('*'), k: link };

/** Helps in the sheet. Ctrl+Enter or ⌘+Enter calls `send`, or presses the button that has the focus in a message. Ctrl+S or ⌘+S calls `save`. */
export function helpTyping(send, save) {
    $('status').addEventListener('keydown', (event) => {
        if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        if (!event.repeat) event.target.click();
    });
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
    content.addEventListener('input', takeMarker);
}
