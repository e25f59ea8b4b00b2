// A profile in words, for notes of an incident, as a tree in JSON, for scripts, and its names as XML.
import { percent, plural, points } from '../format';
import { valueWriter } from '../ptype';
import { ROOT, share, type Flame } from './model';
import { readable, REST } from './names';
import { markNames, matcher, outermost, walk } from './stacks';
import type { NamedRow } from '../api/client';

export type Fact = [name: string, text: string];

const TOP = 10, WIDTH = 10;

/** `"walk" matched 30.0 % in 1 function` */
export function matchText(f: Flame, search: string): string {
  const marked = markNames(f, matcher(search)!), { total, rightTotal } = outermost(f, marked);
  const shares = [percent(share(total, f.total[ROOT])), ...(f.right ? [percent(share(rightTotal, f.right.total[ROOT]))] : [])];
  return `"${search}" matched ${shares.join(' → ')} in ${plural(marked.reduce((n, m) => n + m, 0), 'function')}`;
}

/** The facts, then the functions with the most time. Says how much time lies in frames that were cut. */
export function summary(f: Flame, rows: NamedRow[], type: string, title: string, facts: Fact[], search: string): string {
  const write = valueWriter(type), known = rows.filter((r) => r.name !== REST), cut = rows.find((r) => r.name === REST);
  const left = f.total[ROOT], right = f.right?.total[ROOT] ?? 0;
  const change = (r: NamedRow) => share(r.rightSelf, right) - share(r.self, left);
  const totalChange = (r: NamedRow) => share(r.rightTotal, right) - share(r.total, left);
  const top = (by: (r: NamedRow) => number, line: (r: NamedRow) => string[]) =>
    [...known].sort((a, b) => by(b) - by(a) || (a.name < b.name ? -1 : 1)).slice(0, TOP).filter((r) => by(r) > 0)
      .map((r) => `${line(r).map((cell) => cell.padStart(WIDTH)).join('')}  ${readable(r.name).replace(/\s+/g, ' ')}`);
  const values = (by: 'self' | 'total') => top((r) => r[by], (r) => [percent(share(r[by], left)), write(r[by])]);
  const lists: [string, string[]][] = f.right
    ? [['Biggest changes of self share', top((r) => Math.abs(change(r)), (r) => [points(change(r)), percent(share(r.self, left)), percent(share(r.rightSelf, right))])],
      ['Biggest changes of total share', top((r) => Math.abs(totalChange(r)), (r) => [points(totalChange(r)), percent(share(r.total, left)), percent(share(r.rightTotal, right))])]]
    : [[`Top ${TOP} functions by self`, values('self')], [`Top ${TOP} functions by total`, values('total')]];
  return [
    title,
    ...facts.map(([name, text]) => `${name}: ${text}`),
    ...(search ? [`Search: ${matchText(f, search)}`] : []),
    ...(cut ? [`Cut: ${percent(share(cut.total + cut.rightTotal, left + right))} lies in frames that were not sent; the lists are of those that were`] : []),
    ...lists.flatMap(([name, lines]) => ['', name, ...lines]), '',
  ].join('\n');
}

/** `{query…, flame: {name, value, self, children}}`, written as it is walked: a tree may be deeper than a stack. */
export function json(f: Flame, facts: Record<string, unknown>): string {
  const out = [`${JSON.stringify(facts).slice(0, -1)},"flame":`];
  walk(f, ROOT, (i) => {
    const first = i === ROOT || i === f.firstChild[f.parent[i]];
    const right = f.right ? `,"comparisonValue":${f.right.total[i]},"comparisonSelf":${f.right.self[i]}` : '';
    out.push(`${first ? '' : ','}{"name":${JSON.stringify(f.names[f.name[i]])},"value":${f.total[i]},"self":${f.self[i]}${right},"children":[`);
  }, () => out.push(']}'));
  return `${out.join('')}}\n`;
}

/** Text of XML: without what XML has no place for, such as control characters and half surrogates. */
export const xml = (text: string): string =>
  text.replace(/[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd').replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
