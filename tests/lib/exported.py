"""Files of `flametree export`."""
import gzip
import json
import pathlib

from client import read_pprof

MARK = "flametree:series "


def read_all(folder):
    """{(labels as JSON, sample type, time in ns): {stack: value}} of the files below a folder."""
    got = {}
    for path in pathlib.Path(folder).rglob("*.pb.gz"):
        profile = read_pprof(gzip.decompress(path.read_bytes()))
        comment = [profile["strings"][i] for i in profile["fields"][13]]
        labels = json.loads(comment[-1][len(MARK):])
        key = (json.dumps(labels, sort_keys=True), profile["types"][0], profile["fields"][9][-1])
        assert key not in got, path
        got[key] = {stack: values[0] for stack, values in profile["stacks"].items()}
    return got
