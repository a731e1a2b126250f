// The preview, made by the server's own renderer: beside the text where there is room, else in its place.

import { content, excess, form, isLong, title } from './sheet.js';
import { $, Problem, ask, clock } from './ui.js';

// The one policy that may write HTML, for the one text that the server has sanitised. Published pages run no script at all.
const policy = window.trustedTypes?.createPolicy('preview', { createHTML: (html) => html });

/** The preview follows this long after the last key, in ms. */
const PAUSE = 1000;

/** Room for two columns. The style sheet has the same width. */
const isWide = matchMedia('(min-width: 68.75rem)');

const pane = $('preview');
const button = document.querySelector('button[value=preview]');

/** The person's choice, where there is room. */
let isClosed = false;
let isOpen = false;
/** The text that the preview shows, and the text that was sent for it. */
let shown = null;
let asked = null;
let timer;
let pausedUntil = 0;
/** The scroll position of the text, while the preview is in its place. */
let place = 0;

function note(words) {
    $('preview-note').textContent = words;
    $('preview-note').hidden = !words;
}

/** Shows the part of the page that is beside the text on the screen. */
function followScroll() {
    const room = document.documentElement.scrollHeight - innerHeight;
    if (isOpen && isWide.matches) pane.scrollTop = room > 0 ? (pane.scrollHeight - pane.clientHeight) * scrollY / room : 0;
}

function write(heading, html) {
    $('preview-title').textContent = heading;
    $('preview-title').classList.toggle('long', isLong(heading));
    $('preview-article').innerHTML = policy ? policy.createHTML(html) : html;
    followScroll();
}

/** Shows the text as it is now, unless it is shown already. Fails with a `Problem`. */
async function refresh() {
    clearTimeout(timer);
    const now = JSON.stringify([title.value, content.value]);
    if (!isOpen || now === shown || now === asked) return;
    if (!content.value) {
        shown = now;
        write(title.value, '');
        return note('Your page appears here as you write.');
    }
    if (excess()) return note(`Too long to preview: ${excess()}. Shorten the text.`);
    asked = now;
    try {
        const { body } = await ask('/', { method: 'POST', body: form('preview'), expect: (body) => 'article_html' in body, after: '' });
        if (asked !== now) return;
        shown = now;
        write(body.title ?? '', body.article_html);
        note('');
    } finally {
        if (asked === now) asked = null;
    }
}

async function follow() {
    if (Date.now() < pausedUntil) return;
    try {
        await refresh();
    } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        if (problem.status === 429) {
            pausedUntil = Date.now() + problem.wait * 1000;
            note(`Preview paused until ${clock(pausedUntil)} (too many refreshes).`);
            later(problem.wait * 1000);
        } else {
            note(`Preview not up to date: ${problem.status ? problem.message : 'can’t reach Handbill.'}`);
        }
    }
}

function later(wait) {
    clearTimeout(timer);
    timer = setTimeout(follow, wait);
}

function show(open) {
    isOpen = open;
    const isBeside = open && isWide.matches;
    const isInPlace = open && !isBeside;
    const wasInPlace = document.body.classList.contains('previewing');
    if (isInPlace && !wasInPlace) place = scrollY;
    document.body.classList.toggle('split', isBeside);
    document.body.classList.toggle('previewing', isInPlace);
    document.body.classList.remove('answered');
    pane.hidden = !open;
    button.setAttribute('aria-pressed', isBeside);
    button.textContent = isInPlace ? 'Back to text' : 'Preview';
    if (isInPlace !== wasInPlace) scrollTo(0, isInPlace ? 0 : place);
}

/** Closes the preview: the text is gone, or is another one. */
export function closePreview() {
    show(false);
    shown = null;
    write('', '');
}

export async function togglePreview() {
    show(!isOpen);
    if (isWide.matches) isClosed = !isOpen;
    if (!isOpen) return content.focus({ preventScroll: true });
    if (isWide.matches) return follow();
    try {
        await refresh();
    } catch (problem) {
        show(false);
        throw problem;
    }
    pane.focus({ preventScroll: true });
}

/** Call this when the sheet is there. */
export function startPreview() {
    if (button.form.hidden) return;
    show(isWide.matches && !isClosed);
    follow();
}

isWide.addEventListener('change', startPreview);
addEventListener('scroll', followScroll, { passive: true });
button.form.addEventListener('input', () => isOpen && later(PAUSE));

/** The text was replaced, not typed. */
export const followAtOnce = follow;
