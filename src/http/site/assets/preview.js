// The preview, made by the server's own renderer: beside the text where there is room, else in its place.

import { content, excess, form, sheet, title } from './sheet.js';
import { $, Problem, ask, clock } from './ui.js';

// The one policy that may write HTML, for the one text that the server has sanitised. Published pages run no script at all.
const policy = window.trustedTypes?.createPolicy('preview', { createHTML: (html) => html });

/** The preview follows this long after the last key, in ms. */
const PAUSE = 1000;

/** Room for two columns. The style sheet has the same width. */
const isWide = matchMedia('(min-width: 68.75rem)');

const pane = $('preview');
const button = document.querySelector('button[value=preview]');

/** Whether the preview is in place of the text, where there is no room beside it. */
let isInPlace = false;
/** The text that the preview shows, or that was sent for it. */
let asked = null;
let timer;
/** The scroll position of the text, while the preview is in its place. */
let place = 0;

const note = (words) => { $('preview-note').textContent = words; };

/** Shows the part of the page that is beside the text on the screen. */
function followScroll() {
    // The foot of the page is below the text.
    const room = content.getBoundingClientRect().bottom + scrollY - innerHeight;
    if (isWide.matches) pane.scrollTop = room > 0 ? (pane.scrollHeight - pane.clientHeight) * Math.min(1, scrollY / room) : 0;
}

/** Whether a title is so wide that the page shows it smaller. The server has the same rule. */
const isLong = (text) => [...text].reduce((sum, letter) => sum + (letter < '\u1100' ? 1 : 2), 0) > 64;

function write(heading, html) {
    $('preview-title').textContent = heading;
    $('preview-title').classList.toggle('long', isLong(heading));
    $('preview-article').innerHTML = policy ? policy.createHTML(html) : html;
    followScroll();
}

/** Shows the text as it is now. Call this at once if the text was replaced, not typed. */
export async function follow() {
    clearTimeout(timer);
    const now = JSON.stringify(sheet());
    if (pane.hidden || now === asked) return;
    asked = now;
    if (excess()) return note(`${excess()}. Shorten it to see the preview.`);
    if (!content.value) {
        write(title.value, '');
        return note('');
    }
    try {
        const { body } = await ask('/', { method: 'POST', body: form('preview'), expect: (body) => 'article_html' in body, after: '' });
        if (asked !== now) return;
        write(body.title ?? '', body.article_html);
        note('');
    } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        if (asked === now) asked = null;
        if (problem.status !== 429) return note(`Preview not up to date: ${problem.status ? problem.message : 'can’t reach Handbill.'}`);
        note(`Preview paused until ${clock(Date.now() + problem.wait * 1000)} (too many refreshes).`);
        later(problem.wait * 1000);
    }
}

function later(wait) {
    clearTimeout(timer);
    timer = setTimeout(follow, wait);
}

function show(inPlace) {
    const wasInPlace = isInPlace;
    if (inPlace && !wasInPlace) place = scrollY;
    isInPlace = inPlace;
    document.body.classList.toggle('split', isWide.matches);
    document.body.classList.toggle('previewing', isInPlace);
    document.body.classList.remove('answered');
    pane.hidden = !isWide.matches && !isInPlace;
    button.textContent = isInPlace ? 'Back to text' : 'Preview';
    if (isInPlace !== wasInPlace) scrollTo(0, isInPlace ? 0 : place);
}

/** Closes the preview: the text is gone. */
export function closePreview() {
    show(false);
    pane.hidden = true;
    document.body.classList.remove('split');
    asked = null;
    write('', '');
}

export async function togglePreview() {
    show(!isInPlace);
    if (!isInPlace) return content.focus({ preventScroll: true });
    await follow();
    // Who has gone on meanwhile stays there.
    if ([button, document.body].includes(document.activeElement)) pane.focus({ preventScroll: true });
}

/** Call this when the sheet is there. */
export function startPreview() {
    if (button.form.hidden) return;
    show(false);
    follow();
}

isWide.addEventListener('change', startPreview);
addEventListener('scroll', followScroll, { passive: true });
button.form.addEventListener('input', () => pane.hidden || later(PAUSE));
