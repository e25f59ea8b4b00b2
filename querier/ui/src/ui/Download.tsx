// The profile on screen as a file: pprof with everything that was counted, or the frames as folded stacks.
import { mergeRequest, type Answer } from '../answer';
import { profile } from '../api/client';
import { folded } from '../flame/stacks';
import { typeName } from '../ptype';
import { serviceOf } from '../query';
import { Icon } from './icons';
import { usePopover } from './popover';
import { say } from './toast';

const PATIENCE_MS = 60e3, KEPT_MS = 60e3;

function save(content: Blob, name: string): void {
  const link = document.createElement('a'), address = URL.createObjectURL(content);
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT_MS); // nothing tells when the browser has taken it
}

const fileName = ({ query, range }: Answer, ending: string): string =>
  [serviceOf(query) ?? 'profile', typeName(query.type), new Date(range.end).toISOString().slice(0, 19)]
    .join('-').replace(/[^\p{L}\p{N}.-]+/gu, '_') + ending;

async function savePprof(answer: Answer): Promise<void> {
  try {
    const request = { ...mergeRequest(answer.query, answer.range, 0), path: answer.path };
    const bytes = await profile(request, AbortSignal.timeout(PATIENCE_MS));
    const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream('gzip'));
    save(await new Response(packed).blob(), fileName(answer, '.pb.gz'));
  } catch (e) {
    say(`The profile did not load: ${(e as Error).message}`);
  }
}

export function Download({ answer }: { answer: Answer }) {
  const { open, setOpen, close, box, button, onKeyDown } = usePopover();
  const take = (how: () => void) => {
    close(true);
    how();
  };
  return (
    <div class="popover" ref={box} onKeyDown={onKeyDown}>
      <button class="btn icon small" ref={button} aria-label="Download" title="Download" aria-haspopup="dialog" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="download" />
      </button>
      {open && (
        <div class="panel narrow left" role="dialog" aria-label="Download">
          <ul>
            <li><button onClick={() => take(() => void savePprof(answer))}><span>pprof<small>Everything that was counted, for go tool pprof and others.</small></span></button></li>
            <li><button onClick={() => take(() => save(new Blob([folded(answer.flame)], { type: 'text/plain' }), fileName(answer, '.folded.txt')))}>
              <span>Folded stacks<small>The frames on screen, a line for each stack.</small></span>
            </button></li>
          </ul>
        </div>
      )}
    </div>
  );
}
