// The profile on screen as a file: its picture, the frames, everything that was counted, or a summary in words.
import { address } from '../address';
import { mergeRequest, type Answer } from '../answer';
import { leavesOut, profile, type Exactness, type NamedRow } from '../api/client';
import type { Flame } from '../flame/model';
import { ROOT, totalOf } from '../flame/model';
import { pngOf, svgOf } from '../flame/print';
import { json, matchText, summary, type Fact } from '../flame/report';
import { folded, namedRows } from '../flame/stacks';
import { FlameView } from '../flame/view';
import { typeName, unitOf, valueWriter } from '../ptype';
import { queryText, serviceOf, type Query } from '../query';
import { rangeText, zoneName, type Range } from '../time';
import { absoluteLink } from './CopyLink';
import { Icon } from './icons';
import { usePopover } from './popover';
import { exactnessWords } from './QueryBar';
import { copy, say } from './toast';

const PATIENCE_MS = 60e3, KEPT_MS = 60e3;

function save(content: Blob, name: string): void {
  const link = document.createElement('a'), address = URL.createObjectURL(content);
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT_MS); // nothing tells when the browser has taken it
}

/** A question, with the times that its answer is of. */
export interface Asked { query: Query; range: Range }

const periodOf = (range: Range): string => `${rangeText('', '', range)} ${zoneName(range.end)}`;
const saveText = (text: string, type: string, name: string): void => save(new Blob([text], { type }), name);

type Maker = [name: string, about: string, make: () => void];

interface Props { flame: Flame; type: string; exactness: Exactness; asked: Asked[]; answer?: Answer; functions: (signal: AbortSignal) => Promise<NamedRow[]> }

/** All that can be made of a profile, or of a comparison of two. */
function makers({ flame, type, exactness, asked, answer, functions }: Props) {
  const [{ query, range }] = asked, { search, from, until, show, fn, frames } = address.value, write = valueWriter(type);
  const compared = flame.right !== null, service = serviceOf(query);
  const title = `${compared ? 'Change of ' : ''}${typeName(type)}${service ? ` of ${service}` : ''}`;
  const totals = [totalOf(flame), ...(flame.right ? [flame.right.total[ROOT]] : [])].map(write);
  const file = (ending: string) => [compared ? 'change' : '', service ?? 'profile', typeName(type), new Date(range.end).toISOString().slice(0, 19)]
    .filter(Boolean).join('-').replace(/[^\p{L}\p{N}.-]+/gu, '_') + ending;
  const path = answer?.path.join(' › ') ?? '';
  const part = [
    path && `only this call path: ${path}`, show === 'sandwich' && fn && `callers above, callees below: ${fn}`,
    frames !== 'all' && frames !== 'repeats' && 'runtime and kernel hidden', frames !== 'all' && frames !== 'runtime' && 'recursion folded',
  ].filter(Boolean).join(' · ');
  const lines = [
    `${title} · ${compared ? totals.join(' → ') : `${totals[0]} total`}${search ? ` · ${matchText(flame, search)}` : ''}`,
    ...asked.map((s, i) => `${compared ? `${'AB'[i]}: ` : ''}${queryText(s.query)} · ${periodOf(s.range)}`),
    ...(part ? [part] : []),
  ];
  const facts = (): Fact[] => [
    ...asked.flatMap((s, i): Fact[] => {
      const side = compared ? ['Baseline ', 'Comparison '][i] : '';
      return [[`${side}Query`, queryText(s.query)], [`${side}Range`, periodOf(s.range)], [`${side}Total`, totals[i]]];
    }),
    ['Answer', exactnessWords(exactness, type).join(' · ')],
    ...(path ? [['Call path', path] as Fact] : []),
    ['Link', absoluteLink(from, until)],
  ];
  /** The lists are of all functions, of which the frames on screen may be a part. */
  const words = async () => {
    const all = leavesOut(exactness, flame) && (frames === 'all' || frames === 'repeats');
    return summary(flame, all ? await functions(AbortSignal.timeout(PATIENCE_MS)) : namedRows(flame), type, title, facts(), search);
  };
  const withWords = (use: (text: string) => void) => void words().then(use, (e: Error) => say(`The functions did not load: ${e.message}`));
  const sides = asked.map((s) => ({ query: queryText(s.query), from: new Date(s.range.start).toISOString(), until: new Date(s.range.end).toISOString() }));
  const tree = () => json(flame, { ...sides[0], ...(compared ? { comparison: sides[1] } : {}), unit: unitOf(type).stored || 'count', ...(path ? { path: answer!.path } : {}), exactness: exactness.exact });
  const picture: Maker[] = FlameView.pictures().length === 0 ? [] : [
    ['PNG', 'The flame graph as it is on screen.', () => void pngOf(lines).then((b) => (b ? save(b, file('.png')) : say('The picture is too large')))],
    ['SVG', 'The same, sharp at any size.', () => saveText(svgOf(lines), 'image/svg+xml', file('.svg'))],
  ];
  return [
    ['Copy summary', 'In words, for notes of an incident.', () => withWords((text) => void copy(text, 'Summary'))],
    ['Save summary', 'The same as a text file.', () => withWords((text) => saveText(text, 'text/plain', file('.txt')))],
    ...picture,
    ['JSON', 'The frames as a tree, for d3 and scripts.', () => saveText(tree(), 'application/json', file('.json'))],
    ...(answer ? [
      ['Collapsed stacks', 'The frames, a line for each stack.', () => saveText(folded(flame), 'text/plain', file('.folded.txt'))],
      ['pprof', 'Everything that was counted, for go tool pprof and others.', () => void savePprof(answer, file('.pb.gz'))],
    ] as Maker[] : []),
  ] as Maker[];
}

async function savePprof(answer: Answer, name: string): Promise<void> {
  try {
    const request = { ...mergeRequest(answer.query, answer.range, 0), path: answer.path };
    const bytes = await profile(request, AbortSignal.timeout(PATIENCE_MS));
    const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream('gzip'));
    save(await new Response(packed).blob(), name);
  } catch (e) {
    say(`The profile did not load: ${(e as Error).message}`);
  }
}

export function Download(p: Props) {
  const { open, setOpen, close, box, button, onKeyDown } = usePopover();
  return (
    <div class="popover" ref={box} onKeyDown={onKeyDown}>
      <button class="btn icon small" ref={button} aria-label="Download" title="Download" aria-haspopup="dialog" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="download" />
      </button>
      {open && (
        <div class="panel narrow left" role="dialog" aria-label="Download">
          <ul>
            {makers(p).map(([name, about, make]) => (
              <li key={name}><button onClick={() => {
                close(true);
                make();
              }}><span>{name}<small>{about}</small></span></button></li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}
