// What was not stored as it was sent: a table by reason, or one calm line.
import { losses, type Loss } from '../api/client';
import { exact, plural, value } from '../format';
import { moment } from '../time';
import { useLoad } from './load';

const FATE: Record<string, string> = { refused: 'refused', left_out: 'left out', mended: 'stored, mended' };

/** Of what is refused whole profiles are counted, unless only parts of them went. */
function count(l: Loss): string {
  if (l.kind !== 'refused') return exact(l.parts ?? 0);
  const bytes = value(l.bytes ?? 0, 'bytes');
  return l.profiles ? `${plural(l.profiles, 'profile')}, ${bytes}` : bytes;
}

export function Losses({ again }: { again: number }) {
  const { data, error } = useLoad('losses', again, losses);
  if (error && !data) return <p class="dim told">What was refused or mended is not known: {error.message}</p>;
  if (!data) return null;
  const { rows, since, complete } = data, from = since === null ? '' : ` since ${moment(since)}`;
  if (!rows) {
    return (
      <p class="dim told">
        What is refused or mended is counted by each distributor, at <code>/distributor/losses</code> and
        in <code>flametree_distributor_discarded_*</code>; this querier has none.
      </p>
    );
  }
  const gap = !complete && <p class="dim told">Some counts may be missing: there are more tenants than this process counts apart.</p>;
  if (rows.length === 0) return gap || <p class="dim told">Nothing was refused, left out or mended{from}.</p>;
  return (
    <section class="card losses" aria-labelledby="losses">
      <div class="head"><h2 id="losses">What was not stored as it was sent</h2><span class="dim">{from}</span></div>
      <table class="values works">
        <thead><tr><th scope="col">what it means</th><th scope="col">outcome</th><th scope="col">reason</th><th scope="col">how many</th></tr></thead>
        <tbody>
          {rows.map((l) => (
            <tr key={`${l.kind} ${l.reason}`}>
              <th scope="row">{l.text}</th><td>{FATE[l.kind] ?? l.kind}</td><td><code>{l.reason}</code></td><td class="num">{count(l)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {gap}
    </section>
  );
}
