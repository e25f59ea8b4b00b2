// All that is measured of one service: a card for each profile type.
import { useEffect, useMemo } from 'preact/hooks';
import { address, go } from '../address';
import { series } from '../api/client';
import { isGauge, nameTypes, rateOf } from '../ptype';
import { parseQuery, queryText, selector, SERVICE, serviceOf } from '../query';
import { bucketsOf, lineOf, mean, type Buckets, type Values } from '../series';
import type { Range } from '../time';
import { shownRange } from '../ui/CopyLink';
import { Link } from '../ui/Link';
import { useLoad } from '../ui/load';
import { Failure, Outdated, Unreadable, Waiting } from '../ui/states';
import { sideColors, theme } from '../ui/theme';
import { Spark } from '../ui/timeline';
import type { PageProps } from './page';

const MOST_TYPES = 40;

interface TypeLine extends Values { type: string; buckets: Buckets }
interface TypeLines { service: string; range: Range; lines: TypeLine[] }

async function lineOfType(type: string, service: string, range: Range, signal: AbortSignal): Promise<TypeLine> {
  const buckets = bucketsOf(range, Date.now()), gauge = isGauge(type);
  const [one] = await series({ type, selector: selector([{ label: SERVICE, op: '=', value: service }]), buckets, gauge }, signal);
  return { type, buckets, ...lineOf(one?.points ?? [], buckets, rateOf(type), gauge) };
}

export function TypesPage({ known, choice, query, range, period, again, refresh }: PageProps) {
  const { query: text } = address.value, service = query ? serviceOf(query) : serviceOf(parseQuery(text) ?? { type: '', matchers: [] });
  const types = useMemo(() => nameTypes(known.data?.get(service ?? '') ?? []).slice(0, MOST_TYPES), [known.data, service]);
  const question = service !== null && types.length > 0 ? `${service} ${period} ${types.map((t) => t.id).join(' ')}` : null;
  const over = useLoad<TypeLines>(question, again, async (signal) => {
    const within = range();
    return { service: service!, range: within, lines: await Promise.all(types.map((t) => lineOfType(t.id, service!, within, signal))) };
  });
  useEffect(() => {
    shownRange.value = over.data?.range ?? null;
  }, [over.data]);
  const content = () => {
    if (choice.kind === 'unreadable') return <Unreadable what="query" text={text} wayOut={() => go({ query: '' })} />;
    const error = known.error ?? over.error;
    if (error && !over.data) return <Failure error={error} retry={refresh} />;
    if (known.data && types.length === 0) return <p class="none">No profiles of {service ?? 'any service'} in this range</p>;
    if (over.data?.service !== service) return <Waiting />;
    const nameOf = (type: string) => types.find((t) => t.id === type)?.text ?? type;
    return (
      <>
        {error && <Outdated error={error} at={over.data.lines[0].buckets.now} retry={refresh} />}
        <ul class="cards">{over.data.lines.map((l) => <TypeCard key={l.type} service={service!} line={l} text={nameOf(l.type)} />)}</ul>
      </>
    );
  };
  const services = [...(known.data?.keys() ?? [])];
  return (
    <>
      <div class="querybar">
        <label class="field">
          <span>Service</span>
          <select value={service ?? ''} disabled={services.length === 0}
            onChange={(e) => go({ query: queryText({ type: '', matchers: [{ label: SERVICE, op: '=', value: e.currentTarget.value }] }) })}>
            {(service === null || !services.includes(service)) && <option value={service ?? ''}>{service ?? '–'}</option>}
            {services.map((s) => <option key={s} value={s}>{s}</option>)}
          </select>
        </label>
        <span class="status num dim">{types.length} {types.length === 1 ? 'profile type' : 'profile types'}</span>
      </div>
      <main aria-busy={known.busy || over.busy}><h1 class="unseen">Profile types{service !== null && ` of ${service}`}</h1>{content()}</main>
    </>
  );
}

function TypeCard({ service, line: { type, values, filling, buckets }, text }: { service: string; line: TypeLine; text: string }) {
  const rate = rateOf(type), [big, ...unit] = rate.write(mean(values, buckets)).split(/(?<=\d) /);
  const query = queryText({ type, matchers: [{ label: SERVICE, op: '=', value: service }] });
  return (
    <li class="card service">
      <h2 class="cut"><Link to="flame" patch={{ query }} title={type}>{text}</Link></h2>
      <div class="num"><b class="big">{big}</b> <span class="dim">{[unit.join(' '), isGauge(type) && rate.what].filter(Boolean).join(', ')}</span></div>
      <Spark values={values} filling={filling} color={sideColors(theme.value).a} />
    </li>
  );
}
