// Shared by every page of the editor: messages, requests, copying.

export const $ = (id) => document.getElementById(id);

/** A new element with a text. */
export function element(name, text = '', properties = {}) {
    const made = Object.assign(document.createElement(name), properties);
    made.textContent = text;
    return made;
}

/** Shows `text` beside the bar until the next action. A failure has the kind `bad`. The message may end in a button. */
export function say(text, kind = '', [label, act] = []) {
    const status = $('status');
    status.className = `said ${kind}`;
    status.textContent = text;
    if (!label) return;
    const button = element('button', label, { type: 'button', className: 'quiet' });
    button.addEventListener('click', () => {
        say('');
        act();
    });
    status.append(button);
}

/** Tells those who cannot see it what a button has just shown. */
export const tell = (text) => { $('told').textContent = text; };

/** Shows on `button` itself that it is done. */
export function confirmOn(button, words, spoken = words) {
    tell('');
    button.dataset.words ??= button.textContent;
    button.textContent = `${words} ✓`;
    clearTimeout(button.timer);
    button.timer = setTimeout(() => { button.textContent = button.dataset.words; }, 2500);
    tell(spoken);
}

/** A failure with words for people. `field` is the one that must be corrected, and `status` is 0 if there was no answer. */
export class Problem extends Error {
    constructor(message, { status = 0, code, wait = 0, field } = {}) {
        super(message);
        Object.assign(this, { status, code, wait, field });
    }
}

/** Shows beside `field` what is wrong with it, or nothing. */
export function mark(field, text) {
    const problem = $(`${field.id}-problem`);
    problem.textContent = text;
    problem.hidden = !text;
    field.setAttribute('aria-invalid', Boolean(text));
}

function report(problem) {
    const message = problem instanceof Problem ? problem.message : `Something went wrong: ${problem.message}`;
    if (!problem.field) return say(message, 'bad');
    say('');
    mark(problem.field, message);
    problem.field.focus({ preventScroll: true });
    $(`${problem.field.id}-problem`).scrollIntoView({ block: 'nearest' });
    tell(message);
}

export const clock = (time) => new Date(time).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });

const when = (seconds) => (seconds < 90
    ? `in ${seconds} seconds`
    : `at ${clock(Date.now() + seconds * 1000)}, in ${Math.ceil(seconds / 60)} minutes`);

const UNKNOWN = 'Your text is safe here; try again.';

function words(status, body, wait, unknown) {
    switch (status) {
        case 401: return 'This isn’t the edit key for this page.';
        case 404: return 'There is no page at this address.';
        case 410: return 'This page was deleted.';
        case 429: return `Your network has reached its limit. Your text is safe here; try again ${when(wait)}.`;
    }
    if (body?.error === 'key_in_use') {
        return 'This text was published before, and its page has been changed or deleted since. Publish again to make a new page.';
    }
    return body?.message?.replaceAll('`', '') ?? `Handbill can’t answer right now (${status}). ${unknown}`;
}

/** Sends a request. Returns its answer's body, as JSON, and entity tag. Any failure is a `Problem`, also a body that `expect` refuses. */
export async function ask(path, { headers, expect = () => true, unknown = UNKNOWN, ...options } = {}) {
    const wasOnline = navigator.onLine;
    let response;
    let body = null;
    try {
        response = await fetch(path, {
            ...options,
            headers: { accept: 'application/json', ...headers },
            cache: 'no-store',
            credentials: 'omit',
        });
        const text = await response.text();
        body = text && JSON.parse(text);
    } catch {
        // No answer, half of one, or that of a gateway.
    }
    if (response?.ok && body !== null && expect(body)) return { body, etag: response.headers.get('etag') };
    if (response && !response.ok) {
        const wait = Number(response.headers.get('retry-after')) || 5;
        // The server's words are for shells too.
        const message = words(response.status, body, wait, unknown);
        const isOfTitle = message.startsWith('The page has no title');
        throw new Problem(isOfTitle ? 'Give your page a title.' : message,
            { status: response.status, code: body?.error, wait, field: isOfTitle ? $('title') : undefined });
    }
    throw new Problem(wasOnline || response
        ? `Can’t reach Handbill. ${unknown}`
        : 'You are offline. Your text is safe here; try again when you are back.');
}

let running = 0;
function run(more) {
    running += more;
    // Words that are typed while a text is sent would come too late.
    for (const field of document.querySelectorAll('.sheet textarea')) field.readOnly = running > 0;
}

/** Runs `work` once at a time, and says how it failed. `control` shows that it runs. */
export function once(control, work) {
    return async (event) => {
        event?.preventDefault();
        if (control.getAttribute('aria-disabled') === 'true') return;
        control.setAttribute('aria-disabled', 'true');
        run(1);
        let problem;
        try {
            say('');
            tell('');
            await work(event);
        } catch (caught) {
            problem = caught;
        } finally {
            control.removeAttribute('aria-disabled');
            run(-1);
        }
        if (problem) report(problem);
    };
}

/** Copies `text` and shows it on `button`; or shows the text, to be copied by hand. Returns whether it was copied. */
export async function copy(button, text, what) {
    try {
        await navigator.clipboard.writeText(text);
        confirmOn(button, 'Copied', `${what} copied.`);
        return true;
    } catch {
        say(`This browser doesn’t let the page copy. Select this and copy it yourself: ${text}`, 'bad');
        return false;
    }
}

/** Offers `text` as a file. */
export function download(name, text) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], { type: 'application/octet-stream' }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** The address that opens a page for editing. Whoever has it has the key. */
export const editLink = (slug, key) => `${location.origin}/${slug}/edit#${key}`;
