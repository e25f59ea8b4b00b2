import type { ComponentChildren } from 'preact';
import { go, href, page, type Page, type Patch } from '../address';

interface Props { to?: Page; patch?: Patch; class?: string; label?: string; title?: string; current?: boolean; children: ComponentChildren }

/** A link within the page: opens without a load, and in a new tab as any link does. */
export function Link({ to = page.value, patch = {}, class: name, label, title, current, children }: Props) {
  return (
    <a class={name} href={href(patch, to)} aria-label={label} title={title} aria-current={current ? 'page' : undefined} onClick={(e) => {
      if (e.metaKey || e.ctrlKey || e.shiftKey || e.altKey || e.button !== 0) return;
      e.preventDefault();
      go(patch, 'push', to);
    }}>{children}</a>
  );
}
