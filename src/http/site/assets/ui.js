// Shared by every page of the editor: messages, requests, copying.

export const $ = (id) => document.getElementById(id);
export const element = (name, textContent = '', properties = {}) =>
    Object.assign(document.createElement(name), { textContent, ...properties });

export function button(label, act, properties = {}) {
    const made = element('button', label, { type: 'button', className: 'quiet', ...properties });
    made.addEventListener('click', act);
    return made;
}

/** Shows `text` below the bar until the next action. A failure has the kind `bad`. The message may end in buttons. */
export function say(text, kind = '', ...buttons) {
    $('status').className = `said ${kind}`;
    $('status').replaceChildren(...(text ? [element('span', text)] : []), ...buttons);
}

/** A button in a message, which goes when it is pressed. */
export const answer = (label, act) => button(label, () => {
    say('');
    act();
}, { className: '' });

/** Tells those who cannot see it what a button has just shown. */
export const tell = (text) => { $('told').textContent = text; };

/** Shows on `control` itself that it is done. */
export function confirmOn(control, words, spoken = words) {
    tell('');
    control.dataset.words ??= control.textContent;
    control.textContent = `${words} ✓`;
    clearTimeout(control.timer);
    control.timer = setTimeout(() => { control.textContent = control.dataset.words; }, 2500);
    tell(spoken);
}

/** A failure with words for people. `field` is the field to correct, and `status` is 0 if there was no answer. */
export class Problem extends Error {
    constructor(message, details = {}) {
        super(message);
        Object.assign(this, details);
    }
}

/** Shows above `field` what is wrong with it, or nothing. */
export function mark(field, text) {
    const problem = $(`${field.id}-problem`);
    problem.textContent = text;
    problem.hidden = !text;
    field.setAttribute('aria-invalid', Boolean(text));
}

function report(problem, retry) {
    const { field, status, wait } = problem;
    const message = problem instanceof Problem ? problem.message : `Something went wrong: ${problem.message}`;
    const isSoon = status === 0 || status >= 500 || (status === 429 && wait <= 60);
    if (!field) return say(message, 'bad', ...(isSoon ? [answer('Try again', retry)] : []));
    say('');
    mark(field, message);
    field.focus({ preventScroll: true });
    $(`${field.id}-problem`).scrollIntoView({ block: 'nearest' });
    tell(message);
}

export const clock = (time) => new Date(time).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });

// How the server's words begin, which are for programs too; the field that they are about; and what a person reads beside it.
const OF_FIELDS = [
    ['The page has no title', 'title', 'Give your page a title.'],
    ['No title was sent', 'title', 'Give your page a title. The heading of your text can’t be one.'],
    ['The field `title` is not valid', 'title', 'The title has a character in it that can’t be shown. Clear the title, and type it again.'],
    ['The field `content` contains a text or a link', 'content', 'The people who run this site don’t publish this text, or a link in it. Remove it, or ask them.'],
];

function words({ status }, body, wait, after) {
    const limit = /^Limit reached(: [^.]+)\./.exec(body?.message)?.[1] ?? '';
    switch (body?.error === 'key_in_use' ? body.error : status) {
        case 401: return 'This isn’t the edit key for this page.';
        case 404: return 'There is no page at this link.';
        case 410: return 'This page was deleted.';
        case 429: return `Your network has reached its limit${limit}. Your text is saved; try again after ${clock(Date.now() + wait * 1000)}.`;
        case 'key_in_use': return 'This text was published before, and its page has been changed or deleted since. Publish again to make a new page.';
        default: return body?.message?.replaceAll('`', '') ?? `Handbill can’t answer right now (${status}). ${after}`;
    }
}

/** Sends a request. Returns its answer's JSON and entity tag. Any failure is a `Problem`, also an answer that `expect` refuses. */
export async function ask(path, { headers, expect = () => true, after = 'Your text is safe. Try again.', ...options } = {}) {
    const wasOnline = navigator.onLine;
    let response;
    let body = null;
    try {
        response = await fetch(path, {
            ...options, headers: { accept: 'application/json', ...headers }, cache: 'no-store', credentials: 'omit',
        });
        const text = await response.text();
        body = text && JSON.parse(text);
    } catch {
        // There was no answer, or half of one, or a gateway's.
    }
    if (response?.ok && body !== null && expect(body)) return { body, etag: response.headers.get('etag') };
    if (!response || response.ok) {
        throw new Problem(wasOnline || response
            ? `Couldn’t reach Handbill. ${after}`
            : 'You’re offline. Your text is saved here; try again when you’re back online.', { status: 0 });
    }
    const wait = Number(response.headers.get('retry-after')) || 5;
    const [, name, ofField] = OF_FIELDS.find(([start]) => body?.message?.startsWith(start)) ?? [];
    throw new Problem(ofField ?? words(response, body, wait, after),
        { status: response.status, code: body?.error, wait, field: name && $(name) });
}

/** Runs `work` once at a time, and says how it failed. `control` shows that it runs. */
export function once(control, work) {
    const run = async (event) => {
        event?.preventDefault();
        if (control.getAttribute('aria-disabled') === 'true') return;
        // Words typed while a text is sent would come too late.
        const lock = (on) => document.querySelectorAll('.sheet textarea').forEach((field) => { field.readOnly = on; });
        control.setAttribute('aria-disabled', 'true');
        lock(true);
        if (control.dataset.words) control.textContent = control.dataset.words;
        let problem;
        try {
            say('');
            tell('');
            await work(event);
        } catch (caught) {
            problem = caught;
        }
        control.removeAttribute('aria-disabled');
        lock(false);
        if (problem) report(problem, () => { control.focus(); run(); });
    };
    return run;
}

/** Copies `text` and shows it on `control`, or shows the text to be copied by hand. Returns whether it was copied. */
export async function copy(control, text, what) {
    try {
        await navigator.clipboard.writeText(text);
        confirmOn(control, 'Copied', `${what} copied.`);
        return true;
    } catch {
        say(`This browser doesn’t let the page copy. Select this and copy it yourself: ${text}`, 'bad');
        return false;
    }
}

export function download(name, text) {
    const href = URL.createObjectURL(new Blob([text], { type: 'application/octet-stream' }));
    element('a', '', { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
}
