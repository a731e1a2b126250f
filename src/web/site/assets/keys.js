// Keys and drafts in this browser's storage. A browser may refuse to store: then `false` says so, and nothing fails.

const KEY = 'handbill:key:';
const DRAFT = 'handbill:draft:';
const SLUG = /^[0-9a-z-]+-[2-9b-z]{8}$/;

/** The edit key in `text`, such as an edit link. */
export const findKey = (text) => /hbk_[0-9A-Za-z]{43}(?![0-9A-Za-z])/.exec(text)?.[0];

const KEY_CHARS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** A new edit key, drawn by the browser's cryptographic generator. The server takes none with fewer different characters. */
export function newKey() {
    let key = '';
    while (key.length < 43) {
        // With the last bytes some characters would be likelier than others.
        const [byte] = crypto.getRandomValues(new Uint8Array(1));
        if (byte < 248) key += KEY_CHARS[byte % 62];
    }
    return new Set(key).size < 20 ? newKey() : `hbk_${key}`;
}

/** The result of `work` on the storage, or `otherwise` if the browser refuses. */
function stored(work, otherwise = null) {
    try {
        return work(localStorage);
    } catch {
        return otherwise;
    }
}

const raw = (name) => stored((storage) => storage.getItem(name));
const read = (name) => stored(() => JSON.parse(raw(name)));
const remove = (name) => stored((storage) => storage.removeItem(name));
const namesFrom = (beginning) => stored((storage) => Object.keys(storage).filter((name) => name.startsWith(beginning)), []);
const write = (name, text) => stored((storage) => {
    storage.setItem(name, text);
    return raw(name) === text;
}, false);

/** Whether `page` is one that can be kept: a slug with a key. */
export const isPage = (page) => SLUG.test(page?.slug) && Boolean(page.edit_key) && findKey(page.edit_key) === page.edit_key;

/** Every page whose key is kept, the newest first. */
export const pages = () => namesFrom(KEY).map(read).filter(isPage)
    .map((page) => ({ ...page, title: `${page.title || page.slug}`, created_at: `${page.created_at ?? ''}` }))
    .sort((a, b) => b.created_at.localeCompare(a.created_at));

/** The kept page `slug`, with its key. */
export function page(slug) {
    const kept = read(KEY + slug);
    return isPage(kept) ? kept : null;
}

/** Keeps `{ slug, url, title, edit_key, created_at }`, and whether the title came from a heading. Returns whether it is stored. */
export const keep = (kept) => isPage(kept) && write(KEY + kept.slug, JSON.stringify(kept));

export const forget = (slug) => remove(KEY + slug);

/** Notes that the page `slug` is no more, if its key is kept. */
export function markGone(slug) {
    const kept = page(slug);
    if (kept) keep({ ...kept, gone: true });
}

/** Adds the keys in `text` of pages at one of `origins`: a JSON object a line, or an address and its key on the next line. */
export function importKeys(text, origins) {
    const counts = { added: 0, here: 0, differ: 0, none: 0 };
    let address;
    for (const line of text.split('\n').map((line) => line.trim())) {
        if (!line) continue;
        if (/^https?:\S+$/.test(line)) address = line;
        else counts[importLine(line, address, origins)] += 1;
    }
    return counts;
}

function importLine(line, address, origins) {
    try {
        const { url, edit_key, title, created_at } = line[0] === '{' ? JSON.parse(line) : { url: address, edit_key: findKey(line) };
        const { origin, pathname } = new URL(url);
        const slug = pathname.slice(1);
        const here = page(slug);
        if (here && origins.includes(origin)) return here.edit_key === edit_key ? 'here' : 'differ';
        return origins.includes(origin) && keep({ slug, url, title, edit_key, created_at }) ? 'added' : 'none';
    } catch {
        return 'none';
    }
}

export const exportKeys = () => pages()
    .map(({ url, edit_key, title, created_at }) => `${JSON.stringify({ url, edit_key, title, created_at })}\n`).join('');

// Drafts of the page `slug`, or with '' of a new page. Each tab writes to a place of its own.

let place = null;
let written = null;

/** The drafts that this tab does not write, the newest first. */
export const otherDrafts = (slug) => namesFrom(DRAFT + slug)
    .filter((name) => name !== place && (name + '~').startsWith(`${DRAFT}${slug}~`))
    .map((name) => ({ ...read(name), name }))
    .filter((draft) => typeof draft.content === 'string')
    .sort((a, b) => (b.at ?? 0) - (a.at ?? 0));

/** From now on this tab writes `draft`. */
export function takeDraft({ name }) {
    place = name;
    written = raw(name);
}

/** From now on this tab writes a new draft. The one before stays. */
export const leaveDraft = () => { place = null; };

/** A place for a draft of the page `slug` that has none. */
const newPlace = (slug) => (raw(DRAFT + slug) === null ? DRAFT + slug : `${DRAFT}${slug}~${Date.now()}`);

/** Stores `fields` as a draft of a new page, beside any other. Returns whether it is stored. */
export const addDraft = (fields) => write(newPlace(''), JSON.stringify({ ...fields, at: Date.now() }));

export function saveDraft(slug, fields) {
    // Another tab may have written there since.
    if (!place || raw(place) !== written) place = newPlace(slug);
    const text = JSON.stringify({ ...fields, at: Date.now() });
    const isStored = write(place, text);
    if (isStored) written = text;
    return isStored;
}

export function dropDraft() {
    if (place && raw(place) === written) remove(place);
    place = null;
}
