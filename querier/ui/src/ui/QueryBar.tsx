// What is shown: service, profile type and filters. At its right end, how exact the answer is, as far as the server says.
import type { ComponentChildren } from 'preact';
import { address, go } from '../address';
import { MOST_NODES } from '../answer';
import { leavesOut, type Catalog, type Exactness } from '../api/client';
import { typesOf } from '../choice';
import { nameTypes, preferredType, unitOf, valueWriter } from '../ptype';
import { filtersOf, queryText, serviceOf, splitSpans, withFilter, withService, type Matcher, type Query } from '../query';
import { exact, percent, plural, value } from '../format';
import { clock, moment, readRange } from '../time';
import { FilterEditor } from './FilterEditor';
import { Icon } from './icons';

interface Props {
  query: Query | null;
  catalog: Catalog | null;
  answer: { exactness: Exactness; at: number } | null;
  failed: Error | null;
  ask?: (q: Query) => void; // what a choice does, if it is not enough to put it into the address
  children?: ComponentChildren;
}

export const rangeNow = () => readRange(address.value.from, address.value.until, Date.now()) ?? { start: Date.now() - 3600e3, end: Date.now() };

const askIt = (q: Query): void => go({ query: queryText(q), zoom: '', within: '' });

export function QueryBar({ query, catalog, answer, failed, ask = askIt, children }: Props) {
  const service = query ? serviceOf(query) : null, type = query?.type ?? '';
  const services = [...(catalog?.keys() ?? [])];
  const types = nameTypes([...new Set([...(catalog ? typesOf(catalog, service) : []), ...(type ? [type] : [])])]);

  const chooseService = (s: string) => {
    const has = catalog?.get(s) ?? [];
    ask(withService({ type: has.includes(type) ? type : preferredType(has), matchers: query?.matchers ?? [] }, s));
  };
  return (
    <div class="querybar">
      <label class="field">
        <span>Service</span>
        <select value={service ?? ''} disabled={services.length === 0} onChange={(e) => chooseService(e.currentTarget.value)}>
          {service === null && <option value="">{query && query.matchers.length > 0 ? 'Any' : '–'}</option>}
          {service !== null && !services.includes(service) && <option value={service}>{service}</option>}
          {services.map((s) => <option key={s} value={s}>{s}</option>)}
        </select>
      </label>
      <label class="field">
        <span>Profile</span>
        <select value={type} disabled={types.length === 0} onChange={(e) => ask({ type: e.currentTarget.value, matchers: query!.matchers })}>
          {type === '' && <option value="">–</option>}
          {types.map((t) => <option key={t.id} value={t.id}>{t.text}</option>)}
        </select>
      </label>
      {query && <Chips filters={filtersOf(query)} remove={(m) => ask({ type, matchers: query.matchers.filter((other) => other !== m) })} />}
      {query && type !== '' && <FilterEditor query={query} range={rangeNow} add={(m) => ask(withFilter(query, m))} />}
      {children}
      <span class="status num">
        {failed && <span class="warning" title={failed.message}>The list of services did not load.</span>}
        {answer && <Pill of={answer.exactness} type={type} />}
        {answer && <LoadAll of={answer.exactness} />}
        {answer && <span class="dim" title="When the server answered">as of {clock(answer.at)}</span>}
      </span>
    </div>
  );
}

export function Chips({ filters, remove }: { filters: Matcher[]; remove: (m: Matcher) => void }) {
  return (
    <>
      {filters.map((m) => {
        const span = splitSpans([m]).spans.length > 0;
        return (
          <span class="chip" key={m.label + m.op + m.value}>
            <span class="cut">{span ? 'span' : m.label} {m.op} <b>{m.value || '(empty)'}</b></span>
            <button aria-label={`Remove the filter ${m.label}`} title="Remove this filter" onClick={() => remove(m)}><Icon name="close" /></button>
          </span>
        );
      })}
    </>
  );
}

/** Names of stored blocks are long and tell people little: they are counted here and named in the tooltip. */
function shortly(rest: string): string {
  const end = ' could not be read', names = rest.endsWith(end) ? rest.slice(0, -end.length).split(', ') : [];
  const blocks = names.filter((n) => n.startsWith('v1/')).length, more = /^and (\d+) more$/.exec(names[names.length - 1] ?? '');
  if (blocks === 0) return rest;
  const others = names.filter((n) => !n.startsWith('v1/') && !n.startsWith('and '));
  return [...others, plural(blocks + Number(more?.[1] ?? 0), 'stored block')].join(', ') + end;
}

/** `exact`, `totals` (the sums are, but frames are left out), `rounded=300` (seconds at the edges) or `partial=<what is missing>`. */
function describe(text: string): { words: string; kind: 'good' | 'plain' | 'warn' } {
  const [key, rest = ''] = text.split(/=(.*)/s);
  if (key === 'exact') return { words: 'exact', kind: 'good' };
  if (key === 'totals') return { words: 'totals exact', kind: 'plain' };
  if (key === 'rounded') return { words: `edges rounded by up to ${value(Number(rest) * 1e9, 'nanoseconds')}`, kind: 'plain' };
  if (key === 'partial') return { words: rest ? `incomplete: ${shortly(rest)}` : 'incomplete', kind: 'warn' };
  return { words: text, kind: 'plain' };
}

const ROUNDED = 'Single profiles of that time are no longer kept: the ends of the range lie on sums of hours or days.';
const COUNTED = 'A profile whose samples have labels counts once for each of their label sets.';
const CUT = 'When they were pushed, some stacks were too deep, or too many. They were cut and end in marked frames.';

/** How exact an answer is, in words, with how many profiles it sums. */
export function exactnessWords(of: Exactness, type: string): string[] {
  const said = of.exact === null ? null : describe(of.exact), partly = leavesOut(of), { frames, cut } = of;
  const ofWhat = { nanoseconds: 'time', bytes: 'bytes', count: 'total' }[unitOf(type).unit];
  return [
    partly && said?.kind === 'good' ? 'totals exact' : said && of.since !== null ? `${said.words}, since ${clock(of.since)}` : said?.words,
    partly && `frames show ${percent(Math.min(frames!.share, 0.9994))} of the ${ofWhat}`,
    cut !== null && cut > 0 && `${valueWriter(type)(cut)} in stacks cut when pushed`,
    of.profiles !== null && plural(of.profiles, 'profile'),
  ].filter((text): text is string => Boolean(text));
}

function Pill({ of, type }: { of: Exactness; type: string }) {
  const said = of.exact === null ? null : describe(of.exact), partly = leavesOut(of), { frames, cut } = of;
  const words = [...exactnessWords(of, type), ...(of.tookMs === null ? [] : [`${exact(Math.round(of.tookMs))} ms`])];
  if (words.length === 0) return null;
  const why = [
    of.missing, of.since !== null && `Missing since ${moment(of.since)}`, partly && `${exact(frames!.sent)} of ${plural(frames!.all, 'frame')} are shown. The sums of the table are of all frames.`, cut ? CUT : '',
    said?.words.startsWith('edges rounded') && ROUNDED, (of.profiles ?? 0) > 1 && COUNTED,
  ].filter(Boolean).join('\n');
  const kind = said?.kind === 'good' && (partly || cut) ? 'plain' : said?.kind;
  return <span class="pill" title={why || undefined}>{kind && <i class={kind} />}<span class="cut">{words.join(' · ')}</span></span>;
}

/** Asks again for all frames that there are, or for as many as can be asked for. */
export function LoadAll({ of }: { of: Exactness }) {
  const { frames } = of, most = Math.min(MOST_NODES, frames?.all ?? 0);
  if (!leavesOut(of) || most <= frames!.sent) return null;
  return (
    <button class="btn small" onClick={() => go({ maxNodes: String(most) })}>Load {most < frames!.all ? plural(most, 'frame') : `all ${plural(most, 'frame')}`}</button>
  );
}
