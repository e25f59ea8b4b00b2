"""client.py URL SERVICE WAY: sends stacks main;work 30 ms and main;idle 10 ms by the generated modules of one version of OTLP.

WAY is proto or json (HTTP), or grpc."""
import gzip
import sys
import time
import urllib.request

import grpc
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest, ExportProfilesServiceResponse
from opentelemetry.proto.profiles.v1development import profiles_pb2 as p

EXPORT = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"


def has(message, field):
    return field in message.DESCRIPTOR.fields_by_name


def request(service):
    r = ExportProfilesServiceRequest()
    d = r.dictionary
    d.string_table.extend(["", "samples", "count", "cpu", "nanoseconds", "main", "work", "idle", "thread.name"])
    for table in (d.mapping_table, d.link_table, d.attribute_table, d.function_table, d.location_table):
        table.add()
    d.link_table.add(trace_id=b"0123456789abcdef", span_id=b"spanspan")
    attribute = d.attribute_table.add()
    if has(attribute, "key_strindex") and not has(attribute, "key"):
        attribute.key_strindex = 8
    else:
        attribute.key = "thread.name"
    attribute.value.string_value = "worker"
    for name in (5, 6, 7):
        function = d.function_table.add(name_strindex=name)
        location = d.location_table.add()
        lines = location.lines if has(location, "lines") else location.line
        lines.add(function_index=len(d.function_table) - 1, line=name)
        del function
    resource = r.resource_profiles.add()
    resource.resource.attributes.add(key="service.name").value.string_value = service
    profile = resource.scope_profiles.add().profiles.add()
    if has(profile, "location_indices"):  # 1.7
        kind, samples = profile.sample_type.add(), profile.sample
        profile.time_nanos = time.time_ns()
        profile.location_indices.extend([2, 1, 3, 1])
    else:
        kind, samples = profile.sample_type, profile.samples if has(profile, "samples") else profile.sample
        profile.time_unix_nano = time.time_ns()
        d.stack_table.add()
        d.stack_table.add(location_indices=[2, 1])
        d.stack_table.add(location_indices=[3, 1])
    kind.type_strindex, kind.unit_strindex = 1, 2
    profile.period_type.type_strindex, profile.period_type.unit_strindex = 3, 4
    profile.period = 10_000_000
    for row, count in ((1, 3), (2, 1)):
        sample = samples.add()
        if has(sample, "stack_index"):
            sample.stack_index = row
        else:
            sample.locations_start_index, sample.locations_length = 2 * row - 2, 2
        (sample.values if has(sample, "values") else sample.value).append(count)
        if row == 1:
            sample.attribute_indices.append(1)
            sample.link_index = 1
    return r


def main(url, service, way):
    r = request(service)
    if way == "grpc":
        with grpc.insecure_channel(url.split("://")[1], options=[("grpc.enable_http_proxy", 0)], compression=grpc.Compression.Gzip) as channel:
            call = channel.unary_unary(EXPORT, request_serializer=lambda m: m.SerializeToString(), response_deserializer=ExportProfilesServiceResponse.FromString)
            answer = call(r, timeout=30)
    else:
        body = r.SerializeToString() if way == "proto" else gzip.compress(MessageToJson(r).encode())
        headers = {"Content-Type": "application/x-protobuf"} if way == "proto" else {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        with urllib.request.urlopen(urllib.request.Request(url + "/v1development/profiles", data=body, headers=headers), timeout=30) as reply:
            answer = ExportProfilesServiceResponse.FromString(reply.read() if way == "proto" else b"")
    assert answer.partial_success.rejected_profiles == 0 and not answer.partial_success.error_message, answer


main(*sys.argv[1:])
