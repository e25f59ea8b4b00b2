// How to send profiles to this server, ready to paste, and what it reads. The texts are fetched when they are needed.
import { useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import formatsUrl from '../formats.json?url';
import textUrl from '../start.txt?url';
import { readWays, type Way } from '../start';
import { copyText } from './clipboard';
import { useLoad } from './load';
import { Failure, Waiting } from './states';

interface Row { name: string; works: boolean; tested?: boolean; note: string; language?: string; how?: string; ending?: string }
interface Guide { ways: Way[]; agents: Row[]; formats: Row[] }

async function load(signal: AbortSignal): Promise<Guide> {
  const get = async (url: string) => {
    const r = await fetch(url, { signal });
    if (!r.ok) throw new Error(`HTTP ${r.status}`);
    return r;
  };
  const [text, known] = await Promise.all([get(textUrl).then((r) => r.text()), get(formatsUrl).then((r) => r.json() as Promise<Omit<Guide, 'ways'>>)]);
  return { ways: readWays(text, new URL('.', location.href).href.replace(/\/$/, '')), ...known };
}

interface Props { title: string; again: number; refresh: () => void; children: ComponentChildren }

export function Start({ title, again, refresh, children }: Props) {
  const guide = useLoad('start', again, load), [chosen, choose] = useState(0);
  if (!guide.data) return guide.error ? <Failure error={guide.error} retry={refresh} /> : <Waiting />;
  const { ways, agents, formats } = guide.data, way = ways[chosen];
  return (
    <div class="labels start">
      <nav class="card names" aria-label="Ways to send profiles">
        {ways.map((w, i) => <button key={w.name} aria-pressed={i === chosen} onClick={() => choose(i)}>{w.name}</button>)}
      </nav>
      <div class="stack">
        <section class="card guide">
          <h1>{title}</h1>
          {children}
          <h2>{way.name}</h2>
          <p class="dim">{way.about}</p>
          {way.code.map((text) => <Code key={text} text={text} />)}
        </section>
        <Works head="Agents" rows={agents} of={(r) => [r.language, r.works ? `${r.how}; ${r.note}` : r.note]} columns={['for', 'address and state']} />
        <Works head="Formats" rows={formats} of={(r) => [r.ending, r.note]} columns={['files', '']} />
      </div>
    </div>
  );
}

interface WorksProps { head: string; rows: Row[]; columns: string[]; of: (r: Row) => (string | undefined)[] }

function Works({ head, rows, columns, of }: WorksProps) {
  return (
    <section class="card">
      <div class="head"><h2>{head}</h2></div>
      <table class="values works">
        <thead><tr><th scope="col">{head === 'Agents' ? 'agent' : 'format'}</th><th scope="col">works</th>{columns.map((c) => (c ? <th key={c} scope="col">{c}</th> : <td key={c} />))}</tr></thead>
        <tbody>
          {rows.map((r) => (
            <tr key={r.name}>
              <th scope="row">{r.name}</th><td class={r.works && r.tested !== false ? 'yes' : 'dim'}>{r.works ? r.tested === false ? 'expected' : 'yes' : 'not yet'}</td>
              {of(r).map((text, i) => <td key={i}>{text}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Code({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    setCopied(await copyText(text));
  };
  return (
    <div class="code">
      <pre tabIndex={0} role="region" aria-label="Example">{text}</pre>
      <button class="btn small" onClick={() => void copy()}>{copied ? 'Copied' : 'Copy'}</button>
    </div>
  );
}
