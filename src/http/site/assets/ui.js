// Shared by both pages of the editor: fields, requests, messages, copying.

export const $ = (id) => document.getElementById(id);

/** Says `text` where everybody notices it. */
export function say(text) {
    $('status').textContent = text;
    if (text) $('status').scrollIntoView({ block: 'nearest' });
}

/** A failure with words for people. */
export class Problem extends Error {
    constructor(message, status = 0) {
        super(message);
        this.status = status;
    }
}

function wait(seconds) {
    const at = new Date(Date.now() + seconds * 1000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
    return seconds < 90 ? `in ${seconds} seconds` : `at ${at}, in ${Math.ceil(seconds / 60)} minutes`;
}

const UNKNOWN = 'It is not known whether anything was changed. Your text is still here.';

function words(status, body, retryAfter, unknown) {
    switch (status) {
        case 401: return 'This is not the edit key of this page. Nothing was changed.';
        case 404: return 'There is no page at this address.';
        case 410: return 'This page was deleted. It cannot be brought back.';
        case 429: return `This network has reached its limit. Nothing was changed; try again ${wait(retryAfter)}.`;
    }
    const message = body?.message?.replaceAll('`', '') ?? `The server answered with the status ${status}. ${unknown}`;
    // The server's words are for shells too.
    return message.startsWith('The page has no title')
        ? 'The page has no title. Write one above the text, or begin the text with a heading such as # My page.'
        : message;
}

/** Sends a request. Returns its answer's body, as JSON, and entity tag. Any failure is a `Problem`, also a body that `expect` refuses. */
export async function ask(path, { headers, expect = () => true, unknown = UNKNOWN, ...options }) {
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
        throw new Problem(words(response.status, body, Number(response.headers.get('retry-after')) || 5, unknown), response.status);
    }
    throw new Problem(wasOnline || response
        ? `No whole answer came. ${unknown}`
        : 'You are offline. Your text is still here; try again once you are back.');
}

let running = 0;
function run(more) {
    running += more;
    // Words that are typed while a text is sent would come too late.
    title.readOnly = content.readOnly = running > 0;
}

/** Runs `work` once at a time, and says how it failed. `control` shows that it runs. */
export function once(control, work) {
    return async (event) => {
        event?.preventDefault();
        if (control.getAttribute('aria-disabled') === 'true') return;
        control.setAttribute('aria-disabled', 'true');
        run(1);
        try {
            await work(event);
        } catch (problem) {
            say(problem instanceof Problem ? problem.message : `This failed: ${problem.message}`);
        } finally {
            control.removeAttribute('aria-disabled');
            run(-1);
        }
    };
}

/** The fields of the page. */
export const [title, content] = [$('title'), $('content')];

/** The limits in force, which the page names beside the counter. */
const [MAX_BYTES, MAX_CHARS] = [$('count').dataset.maxBytes, $('count').dataset.maxChars].map(Number);

/** Counts title and text, shows it, and returns whether both fit. */
export function count() {
    const bytes = new TextEncoder().encode(content.value).length;
    const chars = [...title.value.trim()].length;
    const left = bytes > MAX_BYTES ? `, ${(bytes - MAX_BYTES).toLocaleString('en')} too many` : '';
    const long = chars > MAX_CHARS ? ` The title has ${chars} characters, ${chars - MAX_CHARS} too many.` : '';
    $('count').textContent = `${bytes.toLocaleString('en')} of ${MAX_BYTES.toLocaleString('en')} bytes${left}.${long}`;
    $('count').classList.toggle('over', Boolean(left || long));
    content.setAttribute('aria-invalid', Boolean(left));
    title.setAttribute('aria-invalid', Boolean(long));
    return !left && !long;
}

let warned;
/** Fails if the text must not be sent: it does not fit, or holds what looks like a key, of which this warns once. */
export function check() {
    if (!count()) throw new Problem('The text or its title is too long. Shorten it, or split it over several pages.');
    const keys = `${title.value} ${content.value}`.match(/hbk_[0-9A-Za-z]{43}/g)?.join();
    if (!keys || keys === warned) return;
    warned = keys;
    throw new Problem($('status').dataset.keyWarning);
}

/** Puts a text into the fields. */
export function fill(text) {
    title.value = text.title;
    content.value = text.content;
    count();
}

/** Calls `store` while `form` is written and when it is left, and warns before that if `isUnsafe()`. */
export function guard(form, store, isUnsafe) {
    let timer;
    form.addEventListener('input', () => {
        count();
        clearTimeout(timer);
        timer = setTimeout(store, 300);
    });
    addEventListener('pagehide', store);
    document.addEventListener('visibilitychange', () => document.hidden && store());
    addEventListener('beforeunload', (event) => {
        store();
        if (isUnsafe()) event.preventDefault();
    });
}

/** Copies `text`, or shows it. Returns whether it was copied. */
export async function copy(text, what) {
    try {
        await navigator.clipboard.writeText(text);
        say(`${what} was copied.`);
        return true;
    } catch {
        say(`This browser does not let the page copy. Select this and copy it yourself: ${text}`);
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

/** Calls `send` on Ctrl+Enter or ⌘+Enter in `form`. */
export function onShortcut(form, send) {
    form.addEventListener('keydown', (event) => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            send();
        }
    });
}
