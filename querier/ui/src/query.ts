// A query as Pyroscope writes it in addresses: `<profile type>{label="value", …}`.

export interface Matcher { label: string; op: '=' | '!=' | '=~' | '!~'; value: string }
export interface Query { type: string; matchers: Matcher[] }

export const SERVICE = 'service_name';

const OPERATOR = /^(=~|!~|!=|=)/;
const QUOTED = /^(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)/;
const LABEL = /^[a-zA-Z_][a-zA-Z0-9_]*/;
const ESCAPES: Record<string, string> = { n: '\n', t: '\t', r: '\r', a: '\x07', b: '\b', f: '\f', v: '\v' };

/** The text inside a quoted string, with the escapes of Go; null for an escape that Go does not know. */
function unquote(quoted: string): string | null {
  const inner = quoted.slice(1, -1);
  if (quoted[0] === '`') return inner;
  let known = true;
  const text = inner.replace(/\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[0-7]{3}|.)/g, (_, e: string) => {
    if (/^[uUx]./.test(e)) return codePoint(parseInt(e.slice(1), 16));
    if (/^[0-7]{3}$/.test(e)) return codePoint(parseInt(e, 8));
    if (e in ESCAPES) return ESCAPES[e];
    if (!'\\"\''.includes(e)) known = false;
    return e;
  });
  return known ? text : null;
}
const codePoint = (n: number): string => (n <= 0x10ffff ? String.fromCodePoint(n) : '\ufffd');

/** Null if the text is not a query. */
export function parseQuery(text: string): Query | null {
  const brace = text.indexOf('{');
  if (brace < 0) return { type: text.trim(), matchers: [] };
  const type = text.slice(0, brace).trim(), matchers: Matcher[] = [];
  let rest = text.slice(brace + 1);
  const take = (pattern: RegExp): string | null => {
    rest = rest.trimStart();
    const found = pattern.exec(rest)?.[0] ?? null;
    if (found !== null) rest = rest.slice(found.length);
    return found;
  };
  while (!take(/^\}/)) {
    const label = take(LABEL) ?? unquote(take(QUOTED) ?? '""');
    const op = take(OPERATOR) as Matcher['op'] | null;
    const quoted = take(QUOTED);
    const value = quoted === null ? null : unquote(quoted);
    if (!label || !op || value === null) return null;
    matchers.push({ label, op, value });
    if (!take(/^,/) && !rest.trimStart().startsWith('}')) return null;
  }
  return rest.trim() === '' ? { type, matchers } : null;
}

/** `{a="b", c!="d"}` */
export function selector(matchers: Matcher[]): string {
  const one = (m: Matcher) => {
    const label = LABEL.exec(m.label)?.[0] === m.label ? m.label : JSON.stringify(m.label);
    return label + m.op + JSON.stringify(m.value);
  };
  return `{${matchers.map(one).join(', ')}}`;
}

export const queryText = (q: Query): string => q.type + selector(q.matchers);

/** The one service that a query asks for, if it asks for one. */
export function serviceOf(q: Query): string | null {
  return q.matchers.find((m) => m.label === SERVICE && m.op === '=')?.value ?? null;
}

export function withService(q: Query, service: string): Query {
  const others = q.matchers.filter((m) => m.label !== SERVICE);
  return { ...q, matchers: [{ label: SERVICE, op: '=', value: service }, ...others] };
}

/** Chips of everything but the service. */
export function filtersOf(q: Query): Matcher[] {
  const service = serviceOf(q);
  return q.matchers.filter((m) => !(m.label === SERVICE && m.op === '=' && m.value === service));
}

export const withFilter = (q: Query, m: Matcher): Query =>
  ({ ...q, matchers: [...q.matchers.filter((o) => !(o.label === m.label && o.op === m.op && o.value === m.value)), m] });

/** Links in traces name a span in what looks like a filter. The server wants it as a list of its own. */
export function splitSpans(matchers: Matcher[]): { plain: Matcher[]; spans: string[] } {
  const isSpan = (m: Matcher) => m.label === 'profile_id' && m.op === '=' && /^[0-9a-fA-F]{16}$/.test(m.value);
  return { plain: matchers.filter((m) => !isSpan(m)), spans: matchers.filter(isSpan).map((m) => m.value.toLowerCase()) };
}
