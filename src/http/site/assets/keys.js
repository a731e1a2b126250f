// Keys and drafts in this browser's storage. A browser may refuse to store: then a result says so, and nothing fails.

const KEY = 'handbill:key:';
const DRAFT = 'handbill:draft:';
const SLUG = /^[0-9a-z-]+-[2-9b-z]{8}$/;

/** The edit key in `text`, such as an edit link. */
export const findKey = (text) => /hbk_[0-9A-Za-z]{43}(?![0-9A-Za-z])/.exec(text)?.[0];

/** The page of the edit link in `text`. */
export const findSlug = (text) => /([0-9a-z-]+-[2-9b-z]{8})\/edit#/.exec(text)?.[1];

const KEY_CHARS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** A new edit key from the browser's cryptographic generator. The server refuses a key with fewer than 20 different characters. */
export function newKey() {
    // Bytes from 248 on would make some characters likelier than others.
    const bytes = crypto.getRandomValues(new Uint8Array(64)).filter((byte) => byte < 248).slice(0, 43);
    const key = [...bytes].map((byte) => KEY_CHARS[byte % 62]).join('');
    return bytes.length < 43 || new Set(key).size < 20 ? newKey() : `hbk_${key}`;
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
const write = (name, text) => stored((storage) => {
    storage.setItem(name, text);
    return raw(name) === text;
}, false);

export const isPage = (page) => SLUG.test(page?.slug) && Boolean(page.edit_key) && findKey(page.edit_key) === page.edit_key;

/** Every page whose key is saved, the newest first. */
export const pages = () => stored((storage) => Object.keys(storage), []).filter((name) => name.startsWith(KEY)).map(read).filter(isPage)
    .map((page) => ({ ...page, title: `${page.title || page.slug}`, created_at: `${page.created_at ?? ''}` }))
    .sort((a, b) => b.created_at.localeCompare(a.created_at));

/** The saved page `slug`, with its key. */
export const saved = (slug) => [read(KEY + slug)].find(isPage) ?? null;

/** Saves `{ slug, url, title, edit_key, created_at }`. Returns whether it is stored. */
export const keep = (page) => isPage(page) && write(KEY + page.slug, JSON.stringify(page));

export function forget(slug) {
    remove(KEY + slug);
    stored(() => sessionStorage.removeItem(KEY + slug));
}

/** The key that opened the page in this tab. A reload needs it, and it goes with the tab. */
export const tabKey = (slug) => stored(() => sessionStorage.getItem(KEY + slug));
export const keepInTab = (slug, key) => stored(() => sessionStorage.setItem(KEY + slug, key));

/** The page that this tab has published last, for a reload of the receipt. */
const PUBLISHED = 'handbill:published';
export const published = () => saved(stored(() => sessionStorage.getItem(PUBLISHED)));
export const notePublished = (slug) => stored(() => sessionStorage.setItem(PUBLISHED, slug));

/** Adds the keys in `text` of pages at one of `origins`: a JSON object or an edit link a line, or an address and its key on the next line. */
export function importKeys(text, origins) {
    const counts = { added: 0, here: 0, differ: 0, none: 0, again: 0 };
    const added = new Set();
    let address;
    for (const line of text.split(/\s*\n\s*/).filter(Boolean)) {
        const link = /https?:\S+(?=\/edit#)/.exec(line)?.[0];
        if (!link && /^https?:\S+$/.test(line)) address = line;
        else counts[importLine(line, link ?? address, origins, added)] += 1;
    }
    return counts;
}

function importLine(line, address, origins, added) {
    try {
        const { url, edit_key, title, created_at } = line[0] === '{' ? JSON.parse(line) : { url: address, edit_key: findKey(line) };
        const { origin, pathname } = new URL(url);
        const slug = pathname.slice(1);
        const here = origins.includes(origin) && saved(slug);
        // A file has the key of a page in a line of its own, and in the edit link.
        if (here) return here.edit_key !== edit_key ? 'differ' : added.has(slug) ? 'again' : 'here';
        if (!origins.includes(origin) || !keep({ slug, url, title, edit_key, created_at })) return 'none';
        added.add(slug);
        return 'added';
    } catch {
        return 'none';
    }
}

export const exportKeys = () => pages()
    .map(({ url, edit_key, title, created_at }) => `${JSON.stringify({ url, edit_key, title, created_at })}\n`).join('');

// A browser has one draft of the page `slug`, or with '' of a new page. The tab that wrote it last may write it again.
let written = null;

/** From now on, this tab may write the draft. */
export function takeDraft(slug) {
    written = raw(DRAFT + slug);
    const draft = read(DRAFT + slug);
    return typeof draft?.content === 'string' ? draft : null;
}

/** Whether another tab has changed the draft. */
export const isDraft = ({ key }, slug) => key === DRAFT + slug;

export const TAKEN = 'Not saved: another tab has taken over this draft';

/** Returns why the draft is not stored, if so. */
export function saveDraft(slug, fields) {
    if (![null, written].includes(raw(DRAFT + slug))) return TAKEN;
    const text = JSON.stringify(fields);
    if (!write(DRAFT + slug, text)) return 'Not saved: this browser won’t store it';
    written = text;
    return '';
}

/** Another tab's draft stays. */
export function dropDraft(slug) {
    if (raw(DRAFT + slug) === written) remove(DRAFT + slug);
}
