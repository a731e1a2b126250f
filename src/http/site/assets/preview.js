// The preview, made by the server's own renderer.

import { $, ask, content, say, title } from './ui.js';

// The one policy that may write HTML, for the one text that the server has sanitised. Published pages run no script at all.
const policy = window.trustedTypes?.createPolicy('preview', { createHTML: (html) => html });

/** A form with the text. The line breaks of a file stay as they are; those of a field would become CR LF. */
export function form(action) {
    const fields = new FormData();
    if (title.value.trim()) fields.append('title', title.value);
    fields.append('content', new Blob([content.value], { type: 'text/markdown' }), '');
    fields.append('action', action);
    return fields;
}

/** Shows how the text would look. */
export async function preview() {
    const { body } = await ask('/', { method: 'POST', body: form('preview'), expect: (body) => 'article_html' in body });
    // It was published or deleted meanwhile.
    if ($('editor').hidden) return;
    $('preview-title').textContent = body.title ?? '';
    $('preview-article').innerHTML = policy ? policy.createHTML(body.article_html) : body.article_html;
    $('preview').hidden = false;
    $('preview-name').focus();
    say('');
}
