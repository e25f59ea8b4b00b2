// The functions of a flame graph as a table: the same numbers for those who would rather read, sort or listen. Only the
// rows that can be seen exist.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { NamedRow } from '../api/client';
import type { Paint } from '../flame/colors';
import { share } from '../flame/model';
import type { Whole } from '../flame/FlameGraph';
import { readable, shorter } from '../flame/names';
import { changeBy, amountChange, shareChange } from '../flame/norm';
import { percent } from '../format';
import { rateOf, valueWriter } from '../ptype';

interface Props {
  functions: NamedRow[];
  compared: boolean;
  note: string; // how exact the sums are, if that needs words
  paint: Paint;
  type: string;
  whole: Whole;
  keep: ((name: string) => boolean) | null; // of a search
  selected: string;
  wide: boolean; // it has the page for itself: names in full, and shares beside the values where they fit
  sort: string; // as in the address
  about: string; // what is asked: newer values of the same leave the place in the table as it is
  onSort: (sort: string) => void;
  onSelect: (name: string) => void;
  onMenu: (name: string, x: number, y: number) => void;
  onTarget: (name: string | null) => void;
}

const ROW = 26, SPARE = 6, SHARES_FROM = 720;
/** The unit that all values of a column have is left out; the change says it. */
const bare = (text: string): string => text.replace(/ (cores?|s\/s)$/, '');

type Column = 'name' | 'self' | 'selfshare' | 'total' | 'totalshare' | 'base' | 'comp' | 'change';
interface Order { column: Column; up: boolean }

const HEADS: Record<Column, string> = { name: 'Function', self: 'Self', selfshare: 'Self %', total: 'Total', totalshare: 'Total %', base: 'Baseline', comp: 'Compar.', change: 'Change' };

/** `total` is the heaviest first, `total-up` the lightest; names begin with A unless `name-down` is asked. */
function readOrder(text: string, columns: Column[]): Order {
  const [name, way] = text.split('-'), column = columns.find((c) => c === name) ?? (columns.includes('self') ? 'self' : 'change');
  return { column, up: column === 'name' ? way !== 'down' : way === 'up' };
}
function writeOrder({ column, up }: Order): string {
  if (column === 'name') return up ? 'name' : 'name-down';
  return up ? `${column}-up` : column;
}

export function FunctionTable(p: Props) {
  const { functions: all, whole, compared, keep } = p;
  const [seen, setSeen] = useState({ top: 0, height: 600, width: 0 }), shares = p.wide && seen.width >= SHARES_FROM;
  const columns: Column[] = compared ? ['name', 'base', 'comp', 'change'] : shares ? ['name', 'self', 'selfshare', 'total', 'totalshare'] : ['name', 'self', 'total'];
  const order = readOrder(shares ? p.sort : p.sort.replace('share', ''), columns), box = useRef<HTMLDivElement>(null), sought = useRef('');
  const [active, setActive] = useState(0), moved = useRef(false);

  const number = (r: NamedRow, c: Column): number => {
    if (c === 'self' || c === 'selfshare') return r.self;
    if (c === 'total' || c === 'totalshare') return r.total;
    const norm = whole.norm!;
    if (c === 'change') return changeBy(norm, r.total, r.rightTotal);
    const [v, sum, per] = c === 'base' ? [r.total, whole.left, norm.perLeft] : [r.rightTotal, whole.right, norm.perRight];
    return norm.kind === 'abs' ? v * per : share(v, sum);
  };
  const rows = useMemo(() => {
    const kept = keep ? all.filter((r) => keep(r.name)) : all.slice(), way = order.up ? 1 : -1;
    const weight = (r: NamedRow) => Math.abs(number(r, order.column));
    const byName = (a: NamedRow, b: NamedRow) => (a.name < b.name ? -1 : 1);
    return kept.sort(order.column === 'name' ? (a, b) => way * byName(a, b) : (a, b) => way * (weight(a) - weight(b)) || byName(a, b));
  }, [all, keep, order.column, order.up, whole.left, whole.right, whole.norm]);
  const most = useMemo(() => {
    const of = (c: Column) => all.reduce((m, r) => Math.max(m, Math.abs(number(r, c))), 0);
    return { self: of('self'), selfshare: 1, total: whole.left, totalshare: 1, base: 1, comp: 1, change: compared ? of('change') : 1, name: 1 };
  }, [all, whole.left, whole.norm]);

  const look = () => setSeen({ top: box.current!.scrollTop, height: box.current!.clientHeight, width: box.current!.clientWidth });
  useLayoutEffect(() => {
    const watch = new ResizeObserver(look);
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(() => {
    box.current!.scrollTop = 0;
    setActive(0);
  }, [p.about, p.sort]);
  // A function that was chosen elsewhere comes into view, once; a row that was clicked is in view and stays where it is.
  useLayoutEffect(() => {
    if (p.selected === sought.current) return;
    const el = box.current!, row = rows.findIndex((r) => r.name === p.selected), top = row * ROW;
    if (row >= 0 && (top < el.scrollTop || top + ROW > el.scrollTop + el.clientHeight)) el.scrollTop = top - (el.clientHeight - ROW) / 2;
    if (row >= 0 || p.selected === '') sought.current = p.selected;
    if (row >= 0) setActive(row);
  }, [p.selected, rows]);
  useLayoutEffect(() => {
    if (moved.current) box.current!.querySelector<HTMLElement>(`[data-row="${active}"]`)?.focus({ preventScroll: true });
    moved.current = false;
  }, [active, seen]);

  const onKeyDown = (e: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(seen.height / ROW) - 1), at = Math.min(active, rows.length - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 }[e.key];
    if (to === undefined || rows.length === 0) return;
    e.preventDefault();
    const row = Math.max(0, Math.min(rows.length - 1, to)), el = box.current!;
    if (row * ROW < el.scrollTop) el.scrollTop = row * ROW;
    else if ((row + 1) * ROW > el.scrollTop + el.clientHeight) el.scrollTop = (row + 1) * ROW - el.clientHeight;
    moved.current = true;
    look();
    setActive(row);
  };
  const from = Math.max(0, Math.floor(seen.top / ROW) - SPARE), to = Math.min(rows.length, Math.ceil((seen.top + seen.height) / ROW) + SPARE);
  const tabbable = active >= from && active < to ? active : from;
  return (
    <div class={`table ${compared ? 'four' : shares ? 'five' : 'three'}`}>
      {p.note && <p class="note" role="status">{p.note}</p>}
      <div class="inside" role="table" aria-label="Functions" aria-rowcount={rows.length + 1} aria-colcount={columns.length}>
        <div role="rowgroup">
          <div class="thead" role="row" aria-rowindex={1}>
            {columns.map((c) => (
              <div key={c} role="columnheader" aria-sort={order.column !== c ? 'none' : order.up ? 'ascending' : 'descending'}>
                <button onClick={() => p.onSort(writeOrder({ column: c, up: order.column === c ? !order.up : c === 'name' }))}>
                  {HEADS[c]}<span aria-hidden="true">{order.column !== c ? '' : order.up ? ' ↑' : ' ↓'}</span>
                </button>
              </div>
            ))}
          </div>
        </div>
        <div class="rows" role="rowgroup" ref={box} onKeyDown={onKeyDown} onScroll={look}>
          <div class="tall" role="presentation" style={{ height: `${rows.length * ROW}px` }}>
            {rows.slice(from, to).map((r, k) => (
              <Row key={r.name} {...p} shares={shares} row={r} index={from + k} most={most} tabbable={from + k === tabbable}
                focused={() => setActive(from + k)} number={number} />
            ))}
          </div>
          {rows.length === 0 && <p class="none">{keep ? 'No matching functions' : 'No functions'}</p>}
        </div>
      </div>
    </div>
  );
}

interface RowProps extends Props {
  shares: boolean;
  row: NamedRow;
  index: number;
  most: Record<Column, number>;
  tabbable: boolean;
  focused: () => void;
  number: (r: NamedRow, c: Column) => number;
}

function Row({ compared, paint, type, whole, shares, selected, row, index, most, tabbable, focused, number, onSelect, onMenu, onTarget }: RowProps) {
  const { name } = row, write = valueWriter(type);
  const cell = (c: Column, text: string, color?: string, other?: string) => (
    <div class="cell" role="cell">
      <i style={{ width: `${share(Math.abs(number(row, c)), most[c]) * 100}%`, ...(color ? { background: color } : {}) }} />
      {other && <span class="other">{other}</span>}<span>{text}</span>
    </div>
  );
  const change = (): ComponentChildren => {
    const norm = whole.norm!, abs = norm.kind === 'abs', marks = paint.scale!.colors, by = number(row, 'change');
    const side = (v: number) => (abs ? bare(rateOf(type).write(v)) : percent(v));
    const [main, other] = abs ? [amountChange, shareChange] : [shareChange, amountChange];
    const text = (of: typeof main) => of(norm, row.total, row.rightTotal, whole);
    return (
      <>
        <div class="cell" role="cell"><span>{side(number(row, 'base'))}</span></div>
        <div class="cell" role="cell"><span>{side(number(row, 'comp'))}</span></div>
        {cell('change', text(main), `${marks[by > 0 ? marks.length - 1 : 0]}66`, norm.empty ? '' : text(other))}
      </>
    );
  };
  return (
    <div class={`trow${selected === name ? ' selected' : ''}`} role="row" aria-rowindex={index + 2} style={{ top: `${index * ROW}px` }}
      onClick={() => onSelect(name)} onPointerEnter={() => onTarget(name)} onPointerLeave={() => onTarget(null)}
      onContextMenu={(e) => {
        e.preventDefault();
        const box = e.currentTarget.getBoundingClientRect();
        onMenu(name, e.button === 2 ? e.clientX : box.left + 24, e.button === 2 ? e.clientY : box.bottom);
      }}>
      <div class="fn" role="cell">
        {!compared && !paint.scale && <i style={{ background: paint.colorOf(name) }} />}
        <button data-row={index} tabIndex={tabbable ? 0 : -1} aria-pressed={selected === name} title={readable(name)} onFocus={() => {
          focused();
          onTarget(name);
        }}>{(shares ? readable(name) : shorter(name)[0]) || '(no name)'}</button>
      </div>
      {compared ? (
        change()
      ) : (
        <>
          {cell('self', write(row.self))}
          {shares && <div class="cell" role="cell"><span>{percent(share(row.self, whole.left))}</span></div>}
          {cell('total', write(row.total))}
          {shares && <div class="cell" role="cell"><span>{percent(share(row.total, whole.left))}</span></div>}
        </>
      )}
    </div>
  );
}
