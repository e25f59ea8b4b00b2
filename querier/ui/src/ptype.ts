// Profile types: `name:sample type:sample unit:period type:period unit`, for people and for number formats.
import type { Unit } from './format';

const NAMES: Record<string, string> = {
  'process_cpu:cpu': 'CPU time',
  'process_cpu:samples': 'CPU samples',
  'process_cpu:alloc_samples': 'Allocation samples',
  'process_cpu:alloc_size': 'Allocated space',
  'wall:wall': 'Wall time',
  'wall:sample': 'Wall samples',
  'wall:samples': 'Wall samples',
  'memory:alloc_objects': 'Allocated objects',
  'memory:alloc_space': 'Allocated space',
  'memory:alloc_in_new_tlab_objects': 'Allocated objects, new TLAB',
  'memory:alloc_in_new_tlab_bytes': 'Allocated space, new TLAB',
  'memory:inuse_objects': 'Objects in use',
  'memory:inuse_space': 'Space in use',
  'memory:objects': 'Objects',
  'memory:space': 'Space',
  'goroutine:goroutine': 'Goroutines',
  'goroutine:goroutines': 'Goroutines',
  'goroutines:goroutine': 'Goroutines',
  'goroutines:goroutines': 'Goroutines',
  'mutex:contentions': 'Mutex contentions',
  'mutex:delay': 'Mutex delay',
  'block:contentions': 'Block contentions',
  'block:delay': 'Block delay',
};
const MICRO_AND_MORE: Record<string, number> = { microseconds: 1e3, milliseconds: 1e6, seconds: 1e9 };
const GAUGES = /^(inuse_.*|goroutines?)$/;
const CPU = 'process_cpu:cpu:';

function parts(id: string): string[] {
  return id.split(':');
}

export function typeName(id: string): string {
  const [name, sample = ''] = parts(id);
  return NAMES[`${name}:${sample}`] ?? (sample && sample !== name ? `${name} · ${sample}` : name || id);
}

/** Names for a list of types, in the order of the names. Two types that would read alike show their ids. */
export function nameTypes(ids: string[]): { id: string; text: string }[] {
  const seen = new Map<string, number>();
  for (const id of ids) seen.set(typeName(id), (seen.get(typeName(id)) ?? 0) + 1);
  return ids
    .map((id) => ({ id, text: seen.get(typeName(id)) === 1 ? typeName(id) : `${typeName(id)} (${id})` }))
    .sort((a, b) => (a.text < b.text ? -1 : 1));
}

/** The unit to write values in, and what to multiply the stored values by to get there. */
export function unitOf(id: string): { unit: Unit; factor: number; stored: string } {
  const stored = parts(id)[2] ?? '';
  if (stored === 'nanoseconds') return { unit: 'nanoseconds', factor: 1, stored };
  if (stored in MICRO_AND_MORE) return { unit: 'nanoseconds', factor: MICRO_AND_MORE[stored], stored };
  if (stored === 'bytes') return { unit: 'bytes', factor: 1, stored };
  return { unit: 'count', factor: 1, stored: stored === 'count' ? '' : stored };
}

/** Values like heap in use are states, not amounts: over a range they are summed over its profiles. */
export const isGauge = (id: string): boolean => GAUGES.test(parts(id)[1] ?? '');

/** What to show of a service when nobody asked for anything: CPU time, or else the first by name. */
export function preferredType(ids: string[]): string {
  return ids.find((id) => id.startsWith(CPU)) ?? nameTypes(ids)[0]?.id ?? '';
}
