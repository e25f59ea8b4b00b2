// What all pages are told by the frame around them.
import type { Catalog } from '../api/client';
import type { Choice } from '../choice';
import type { Query } from '../query';
import type { Range } from '../time';
import type { Loaded } from '../ui/load';

export interface PageProps {
  known: Loaded<Catalog>; // services and types of the range
  choice: Choice;
  query: Query | null; // what to ask, once that is known
  range: (now?: number) => Range; // of the address, as of now or of that time
  period: string; // changes with the range of the address
  again: number; // changes with every refresh
  refresh: () => void;
}
