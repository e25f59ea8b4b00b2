// One short line that tells that something was done.
import { signal } from '@preact/signals';
import { copyText } from './clipboard';

const SHOWN_MS = 2500;
const said = signal('');
let timer = 0;

export function say(text: string): void {
  said.value = text;
  clearTimeout(timer);
  timer = window.setTimeout(() => (said.value = ''), SHOWN_MS);
}

export async function copy(text: string, what: string): Promise<void> {
  say((await copyText(text)) ? `${what} copied` : `The browser does not allow to copy the ${what.toLowerCase()}`);
}

export const Toast = () => <div class="toast" role="status" hidden={said.value === ''}>{said.value}</div>;
