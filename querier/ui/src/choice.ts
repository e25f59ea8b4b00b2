// What to show when an address leaves it open.
import type { Catalog } from './api/client';
import { parseQuery, SERVICE, serviceOf, withService, type Query } from './query';
import { fromLegacy, isTypeId, preferredType } from './ptype';

/** The server's profiles of itself: always there, seldom what one came for. */
export const OURSELVES = 'flametree';
/** Are there profiles, but only the server's own? */
export const onlyOurs = (catalog: Catalog): boolean => catalog.size === 1 && catalog.has(OURSELVES);

export function defaultService(catalog: Catalog): string | null {
  const services = [...catalog.keys()];
  return services.find((s) => s !== OURSELVES) ?? services[0] ?? null;
}

/** Types of one service, or of all of them. */
export function typesOf(catalog: Catalog, service: string | null): string[] {
  if (service !== null) return catalog.get(service) ?? [];
  return [...new Set([...catalog.values()].flat())];
}

export type Choice =
  | { kind: 'unreadable' } // the address holds something that is not a query
  | { kind: 'waiting' } // which services there are is not known yet
  | { kind: 'nothing' } // there is nothing to choose from
  | { kind: 'query'; query: Query };

/** The query to ask: the one of the address, with what it does not say filled in from the catalog. */
export function choose(text: string, catalog: Catalog | null): Choice {
  const asked = parseQuery(text);
  if (asked === null) return { kind: 'unreadable' };
  if (asked.type.includes(':')) return isTypeId(asked.type) ? { kind: 'query', query: asked } : { kind: 'unreadable' };
  if (catalog === null) return { kind: 'waiting' };
  if (asked.type !== '') {
    const known = fromLegacy(asked.type, (service) => catalog.get(service) ?? []);
    if (!known) return { kind: 'unreadable' };
    return { kind: 'query', query: withService({ type: known.type, matchers: asked.matchers }, known.service) };
  }
  let { matchers } = asked;
  if (matchers.length === 0) {
    const service = defaultService(catalog);
    if (service === null) return { kind: 'nothing' };
    matchers = [{ label: SERVICE, op: '=', value: service }];
  }
  const type = preferredType(typesOf(catalog, serviceOf({ type: '', matchers })));
  return type === '' ? { kind: 'nothing' } : { kind: 'query', query: { type, matchers } };
}
