// What was not stored as it was sent: a table by reason, or one calm line.
import { losses, type Loss } from '../api/client';
import { exact, plural, value } from '../format';
import { moment } from '../time';
import { useLoad } from './load';

/** Of what is refused whole profiles are counted, unless only parts of them went. */
function count({ parts, profiles, bytes = 0 }: Loss): string {
  if (parts) return exact(parts);
  return (profiles ? `${plural(profiles, 'profile')}, ` : '') + value(bytes, 'bytes');
}

export function Losses({ again }: { again: number }) {
  const { data, error } = useLoad('losses', again, losses);
  if (!data) return error && <p class="dim told">What was refused or mended is not known: {error.message}</p>;
  const { losses: rows, since, note } = data, from = since && ` since ${moment(Date.parse(since))}`;
  const last = <p class="dim told">{note ?? `Nothing was refused, left out or mended${from}.`}</p>;
  if (!rows?.length) return last;
  return (
    <section class="card losses" aria-labelledby="losses">
      <div class="head"><h2 id="losses">What was not stored as it was sent</h2><span class="dim">{from}</span></div>
      <table class="values works">
        <thead><tr><th scope="col">what it means</th><th scope="col">outcome</th><th scope="col">reason</th><th scope="col">count</th></tr></thead>
        <tbody>
          {rows.map((l) => (
            <tr key={l.kind + l.reason}>
              <th scope="row">{l.text}</th><td>{l.kind.replace('_', ' ')}</td><td>{l.reason}</td><td class="num">{count(l)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {note && last}
    </section>
  );
}
