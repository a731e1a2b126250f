// The preview, made by the server's own renderer: beside the text where there is room, else in its place.

import { content, form, isLong, title } from './sheet.js';
import { $, Problem, ask, clock } from './ui.js';

// The one policy that may write HTML, for the one text that the server has sanitised. Published pages run no script at all.
const policy = window.trustedTypes?.createPolicy('preview', { createHTML: (html) => html });

/** The preview follows this long after the last key, in ms. */
const PAUSE = 1000;

/** Whether there is room for two columns; the style sheet has the same width. */
const isWide = matchMedia('(min-width: 68.75rem)');

const CLOSED = 'handbill:preview:closed';
const pane = $('preview');
const button = document.querySelector('button[value=preview]');

/** Whether somebody has closed the preview beside the text, in this browser. */
let isClosed = false;
try {
    isClosed = localStorage.getItem(CLOSED) !== null;
} catch {
    // Nothing is stored here.
}

let isOpen = false;
/** The text that the preview shows; `null` if it shows none. */
let shown = null;
let asked = null;
let timer;
let pausedUntil = 0;
/** Where somebody was writing, while the preview is in the place of the text. */
let place = 0;

const text = () => JSON.stringify([title.value, content.value]);

function note(words) {
    $('preview-note').textContent = words;
    $('preview-note').hidden = !words;
}

function write(heading, html) {
    const at = pane.scrollTop;
    $('preview-title').textContent = heading;
    $('preview-title').classList.toggle('long', isLong(heading));
    $('preview-article').innerHTML = policy ? policy.createHTML(html) : html;
    pane.scrollTop = at;
}

/** Shows the text as it is now, unless it is shown already. Fails with a `Problem`. */
async function refresh() {
    clearTimeout(timer);
    const now = text();
    if (!isOpen || now === shown || now === asked) return;
    if (!content.value) {
        shown = now;
        write(title.value, '');
        return note('Your page appears here as you write.');
    }
    asked = now;
    try {
        const { body } = await ask('/', { method: 'POST', body: form('preview'), expect: (body) => 'article_html' in body });
        if (asked !== now) return;
        write(body.title ?? '', body.article_html);
        shown = now;
        note('');
    } finally {
        if (asked === now) asked = null;
    }
}

/** Refreshes, and says in the preview itself if that fails. */
async function follow() {
    if (Date.now() < pausedUntil) return;
    try {
        await refresh();
    } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        if (problem.status === 429) {
            pausedUntil = Date.now() + problem.wait * 1000;
            note(`The preview is paused because it was refreshed very often. It goes on at ${clock(pausedUntil)}.`);
            later(problem.wait * 1000);
        } else {
            note(`This is not your latest text. ${problem.message}`);
        }
    }
}

function later(wait) {
    clearTimeout(timer);
    // A longer time would overflow; nobody waits for it.
    timer = setTimeout(follow, Math.min(wait, 2 ** 31 - 1));
}

function show(open) {
    isOpen = open;
    const isBeside = open && isWide.matches;
    const wasInPlace = document.body.classList.contains('previewing');
    const isInPlace = open && !isBeside;
    if (isInPlace && !wasInPlace) place = scrollY;
    document.body.classList.toggle('split', isBeside);
    document.body.classList.toggle('previewing', isInPlace);
    document.body.classList.remove('answered');
    pane.hidden = !open;
    button.setAttribute('aria-pressed', open);
    if (wasInPlace && !isInPlace) scrollTo(0, place);
}

/** Closes the preview: the text is gone, or is another one. */
export function closePreview() {
    show(false);
    shown = null;
    write('', '');
}

/** Opens or closes the preview, as its button does. */
export async function togglePreview() {
    const open = !isOpen;
    show(open);
    if (isWide.matches) {
        isClosed = !open;
        try {
            if (isClosed) localStorage.setItem(CLOSED, '');
            else localStorage.removeItem(CLOSED);
        } catch {
            // It is closed again on the next visit.
        }
    } else {
        scrollTo(0, open ? 0 : place);
    }
    if (!open) return content.focus({ preventScroll: true });
    if (isWide.matches) return follow();
    try {
        await refresh();
    } catch (problem) {
        show(false);
        throw problem;
    }
    pane.focus({ preventScroll: true });
}

/** Shows the preview where it has room. Call this when the sheet is there. */
export function startPreview() {
    if (button.form.hidden) return;
    show(isWide.matches && !isClosed);
    follow();
}

isWide.addEventListener('change', startPreview);
button.form.addEventListener('input', () => isOpen && later(PAUSE));

/** The text was replaced, not typed. */
export const followAtOnce = follow;
