// The address holds the whole state of the page: what you see is what a colleague sees who opens the link.
// A parameter that is absent has its default, and defaults are left out.
import { computed, signal } from '@preact/signals';
import { DEFAULT_FROM } from './time';

export type Param = 'query' | 'from' | 'until' | 'refresh' | 'zoom';
export type Patch = Partial<Record<Param, string>>;

const DEFAULTS: Record<Param, string> = { query: '', from: DEFAULT_FROM, until: 'now', refresh: '', zoom: '' };

const search = signal(location.search);
addEventListener('popstate', () => (search.value = location.search));

export const address = computed((): Record<Param, string> => {
  const given = new URLSearchParams(search.value), out = { ...DEFAULTS };
  for (const key of Object.keys(DEFAULTS) as Param[]) out[key] = given.get(key) || DEFAULTS[key];
  return out;
});

/** The relative address of this page with some parameters changed. Unknown parameters stay. */
function href(patch: Patch): string {
  const q = new URLSearchParams(search.value);
  for (const [key, text] of Object.entries(patch)) {
    if (text === DEFAULTS[key as Param]) q.delete(key);
    else q.set(key, text);
  }
  // Colons, slashes and commas are legal in a query and much easier to read.
  const text = q.toString().replace(/%3A/g, ':').replace(/%2F/g, '/').replace(/%2C/g, ',');
  return text ? `?${text}` : location.pathname;
}

/** Places (service, type, range, zoom) get an entry in the history, so that Back undoes the last change. */
export function go(patch: Patch, history: 'push' | 'replace' = 'push'): void {
  const to = href(patch);
  if (new URL(to, location.href).search === location.search) return;
  if (history === 'push') window.history.pushState(null, '', to);
  else window.history.replaceState(null, '', to);
  search.value = location.search;
}
