// Help while typing: shortcuts, links that are pasted, lists that go on. Each change can be undone like typed text.

import { content, title } from './sheet.js';

/** Replaces the text between `start` and `end`, and then selects the part of it from `from` to `to`. */
function replace(start, end, text, from = text.length, to = from) {
    content.setSelectionRange(start, end);
    // Typing it in keeps the history of changes. An old browser may refuse.
    const isDone = document.execCommand(text ? 'insertText' : 'delete', false, text);
    if (!isDone && start + end + text.length) {
        content.setRangeText(text, start, end);
        content.dispatchEvent(new InputEvent('input', { bubbles: true }));
    }
    content.setSelectionRange(start + from, start + to);
}

/** Puts `mark` around the selection, or takes it away if it is there. */
function surround(mark) {
    const { value } = content;
    let { selectionStart: start, selectionEnd: end } = content;
    while (start < end && /\s/.test(value[start])) start += 1;
    while (end > start && /\s/.test(value[end - 1])) end -= 1;
    const text = value.slice(start, end);
    const stars = (run) => run.length;
    const before = stars(/\**$/.exec(value.slice(0, start))[0]);
    const after = stars(/^\**/.exec(value.slice(end))[0]);
    // Two stars are bold, one is italic, three are both.
    const around = Math.min(before, after);
    const isThere = mark.length === 2 ? around >= 2 : around % 2 === 1;
    if (isThere) replace(start - mark.length, end + mark.length, text, 0, text.length);
    else replace(start, end, mark + text + mark, mark.length, mark.length + text.length);
}

const ADDRESS = /^https?:\/\/[^\s<>]+$/i;
const IMAGE = /^https:\/\/[^\s?#]+\.(?:avif|gif|jpe?g|png|svg|webp)(?:[?#]\S*)?$/i;

const inLink = (address) => address.replaceAll('(', '%28').replaceAll(')', '%29');

function link() {
    const { value, selectionStart: start, selectionEnd: end } = content;
    const text = value.slice(start, end);
    if (ADDRESS.test(text)) replace(start, end, `[](${inLink(text)})`, 1);
    else if (text) replace(start, end, `[${text}](https://)`, text.length + 3, text.length + 11);
    else replace(start, end, '[](https://)', 1);
}

/** An address that is pasted over words becomes a link, and that of an image an image. */
function paste(event) {
    const address = event.clipboardData?.getData('text/plain').trim() ?? '';
    const { value, selectionStart: start, selectionEnd: end } = content;
    const text = value.slice(start, end);
    // Behind these it is already part of a link, or of code.
    const isInside = /[(<"'`=/]$/.test(value.slice(0, start));
    if (!ADDRESS.test(address) || isInside || /[\n[\]]/.test(text) || ADDRESS.test(text.trim())) return;
    const isImage = IMAGE.test(address);
    if (!text.trim() && !isImage) return;
    event.preventDefault();
    const mark = isImage ? '!' : '';
    replace(start, end, `${mark}[${text}](${inLink(address)})`, text ? undefined : 2);
}

const ITEM = /^([ \t]*(?:>[ \t]?)*)(?:([-*+]|(\d{1,8})([.)]))([ \t]+)(\[[ xX]\][ \t]+)?)?/;

/** Enter at the end of an item begins the next one; in an empty item it ends the list with an empty line. */
function goOn(event) {
    const { value, selectionStart: start, selectionEnd: end } = content;
    if (start !== end) return;
    const begin = value.lastIndexOf('\n', start - 1) + 1;
    const line = value.slice(begin, start);
    const [whole, lead, bullet, number, dot, space = '', box] = ITEM.exec(line);
    if (!bullet && !lead.includes('>')) return;
    event.preventDefault();
    const isEmpty = whole.length === line.length && !/\S/.test(value.slice(start).split('\n', 1)[0]);
    if (isEmpty) {
        // A quote goes on without the list, and then ends too.
        replace(begin, start, bullet && lead.includes('>') ? `${lead.trimEnd()}\n${lead}` : '\n');
        return;
    }
    const next = number ? `${Number(number) + 1}${dot}` : bullet ?? '';
    replace(start, end, `\n${lead}${next}${space}${box ? '[ ] ' : ''}`);
}

const inText = { b: () => surround('**'), i: () => surround('*'), k: link };

/** Helps in the sheet `form`. Ctrl+Enter or ⌘+Enter calls `send`, Ctrl+S or ⌘+S `save`. */
export function helpTyping(form, send, save) {
    form.addEventListener('keydown', (event) => {
        if (event.isComposing || event.altKey) return;
        const key = event.key.toLowerCase();
        let act;
        if (event.ctrlKey || event.metaKey) {
            if (key === 'enter') act = send;
            else if (key === 's' && !event.shiftKey) act = save;
            else if (event.target === content && !content.readOnly && !event.shiftKey) act = inText[key];
        } else if (key === 'enter' && event.target === title) {
            act = () => content.focus();
        } else if (key === 'enter' && event.target === content && !event.shiftKey && !content.readOnly) {
            goOn(event);
        }
        if (!act) return;
        event.preventDefault();
        act();
    });
    content.addEventListener('paste', paste);
}
