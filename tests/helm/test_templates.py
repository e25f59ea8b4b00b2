# SPDX-License-Identifier: Apache-2.0
"""Every combination of values that the chart offers gives objects that fit each other, and settings that the programs take."""
import os
import re
import subprocess

import pytest
import yaml
from certificates import Authority
from chart import KUBE, NAMESPACE, PRESETS, ROLES, containers, run, size, template
from flametree import BIN, WITHOUT_SETTINGS, Flametree

BUCKET = {"storage": {"s3": {"bucket": "profiles"}}}
SCALED = {role: {"autoscaling": {"enabled": True}} for role in ROLES}
# name: (presets, values)
CASES = {
    "default": ((), BUCKET),
    "all-in-one": (["all-in-one"], {}),
    "all-in-one-bucket": ((), {"mode": "all-in-one", "log": "local", **BUCKET}),
    "all-in-one-object-log": ((), {"mode": "all-in-one", **BUCKET}),
    "small": (["small"], BUCKET),
    "large": (["large"], BUCKET),
    "local-log": (["small"], {"log": "local", "ingester": {"persistence": {"storageClass": "fast", "annotations": {"keep": "yes"}}}, **BUCKET}),
    "own-service-and-secret": ((), {"storage": {"s3": {
        "bucket": "profiles", "endpoint": "https://minio.storage.svc:9000", "region": "here", "prefix": "team", "style": "path", "existingSecret": "bucket-keys",
        "accessKeyKey": "user", "secretKeyKey": "pass", "caSecret": "minio-ca", "caKey": "tls.crt"}}}),
    "identity-aws": ((), {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/flametree"}}, **BUCKET}),
    "google": ((), {"storage": {"s3": {"bucket": "profiles", "endpoint": "https://storage.googleapis.com", "existingSecret": "hmac"}},
                    "config": {"s3": {"dialect": "google"}}, "serviceAccount": {"name": "flametree-google"}}),
    "identity-azure": ((), {"storage": {"kind": "azure", "azure": {"account": "acme", "container": "profiles"}}, "podLabels": {"azure.workload.identity/use": "true"},
                            "serviceAccount": {"annotations": {"azure.workload.identity/client-id": "x"}, "labels": {"azure.workload.identity/use": "true"}}}),
    "azure-secret": ((), {"storage": {"kind": "azure", "azure": {"account": "acme", "container": "profiles", "prefix": "p", "existingSecret": "blob-key"}}}),
    "volume-of-all": ((), {"storage": {"kind": "local", "local": {"existingClaim": "nfs"}}}),
    "existing-account": ((), {"serviceAccount": {"create": False, "name": "shared"}, **BUCKET}),
    "scaled-by-adapter": ((), {"autoscaling": {"metrics": "custom"}, **SCALED, **BUCKET}),
    "scaled-by-keda": ((), {"autoscaling": {"metrics": "keda", "keda": {"prometheusAddress": "http://prometheus:9090"}}, **SCALED, **BUCKET}),
    "scaled-by-cpu-alone": ((), {"distributor": SCALED["distributor"], "querier": SCALED["querier"], **BUCKET}),
    "ingress": ((), {"ingress": {"enabled": True, "className": "nginx", "hosts": ["flame.example.com"], "annotations": {"a": "b"},
                                 "tls": [{"secretName": "cert", "hosts": ["flame.example.com"]}]}, **BUCKET}),
    "gateway": ((), {"gateway": {"enabled": True, "parentRefs": [{"name": "public"}], "hosts": ["flame.example.com"]}, **BUCKET}),
    "ingress-of-one": (["all-in-one"], {"ingress": {"enabled": True, "hosts": ["f.example.com"]}, "gateway": {"enabled": True, "parentRefs": [{"name": "g"}]}}),
    "below-a-path": ((), {"pathPrefix": "/shop/flametree", "ingress": {"enabled": True, "hosts": ["f.example.com"]}, "gateway": {"enabled": True, "parentRefs": [{"name": "g"}]}, **BUCKET}),
    "tls": ((), {"tls": {"internal": {"secretName": "inside"}, "public": {"secretName": "outside"}}, "monitoring": {"podMonitor": True}, **BUCKET}),
    "tls-of-one": (["all-in-one"], {"tls": {"public": {"secretName": "outside"}}}),
    "policies": ((), {"networkPolicy": {"clients": [{"namespaceSelector": {}}], "operators": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]}, **BUCKET}),
    "no-policy": ((), {"networkPolicy": {"enabled": False}, **BUCKET}),
    "watched": ((), {"monitoring": {"podMonitor": True, "rules": True, "dashboards": True, "datasource": True, "labels": {"release": "prometheus"}}, **BUCKET}),
    "watched-by-services": (["all-in-one"], {"monitoring": {"serviceMonitor": True, "rules": True, "datasource": True}, "multitenancy": True}),
    "tenants": ((), {"multitenancy": True, "overrides": {"acme": {"ingestion_rate_mb": 50}}, "config": {"limits": {"max_query_length": "90d"}}, **BUCKET}),
    "placed": ((), {"spread": "required", "zoneLabel": "zone", "priorityClasses": {"create": True}, "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": [{"name": "registry"}]},
                    "extraEnv": [{"name": "TZ", "value": "UTC"}], "podAnnotations": {"a": "b"}, "hosts": ["*.example.com"], "selfProfile": False,
                    **{role: {"nodeSelector": {"pool": role}, "tolerations": [{"operator": "Exists"}], "affinity": {"nodeAffinity": {}}} for role in ROLES}, **BUCKET}),
    "not-spread": ((), {"spread": "off", "querier": {"cacheSize": "", "serviceType": "LoadBalancer", "serviceAnnotations": {"a": "b"}}, "fullnameOverride": "profiles", **BUCKET}),
    "long-name": ((), {"nameOverride": "a-name-that-is-as-long-as-names-are-allowed-to-be", **BUCKET}),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    presets, values = CASES[request.param]
    return request.param, template(values, presets)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A folder that has what a pod has below /."""
    root = tmp_path_factory.mktemp("root")
    for folder in ("config/overrides", "data", "store", "secrets"):
        (root / folder).mkdir(parents=True)
    authority = Authority(root / "secrets")
    authority.sign("node", "127.0.0.1")
    for secret in ("internal-tls", "public-tls", "store-ca", "azure"):
        (root / "secrets" / secret).mkdir()
        for name, made in (("tls.crt", "node.pem"), ("tls.key", "node.key"), ("ca.crt", "ca.pem")):
            os.symlink(authority.path(made), root / "secrets" / secret / name)
    (root / "secrets/azure/key").write_text("AccountName=acme;AccountKey=" + "QUJD" * 8 + "\n")
    return root


def test_presets_are_all_tried():
    assert set(PRESETS) == {p for presets, _ in CASES.values() for p in presets}


def test_lint_has_nothing_to_say(case):
    presets, values = CASES[case[0]]
    done = run(["lint"], "--strict", "--kube-version", KUBE, values=values, presets=presets)
    assert done.returncode == 0 and "[WARNING]" not in done.stdout and "[ERROR]" not in done.stdout, done.stdout + done.stderr


def test_names_are_unique_and_short_enough(case):
    names = [(d["kind"], d["metadata"]["name"]) for d in case[1].docs]
    assert len(names) == len(set(names)), names
    for kind, name in names:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name), name
        assert len(name) <= (52 if kind == "StatefulSet" else 63), (kind, name)  # a StatefulSet's pods have a label of its name and a hash
    for d in case[1].docs:
        for key, value in d["metadata"].get("labels", {}).items():
            assert len(value) <= 63 and re.fullmatch(r"([A-Za-z0-9]([-\w.]*[A-Za-z0-9])?)?", value), (key, value)


def test_services_reach_a_workload_on_ports_that_it_has(case):
    for service in case[1].of("Service"):
        chosen = case[1].chosen(service["spec"]["selector"])
        assert len(chosen) == 1, service["metadata"]["name"]
        ports = {p["name"] for c in chosen[0]["spec"]["template"]["spec"]["containers"] for p in c["ports"]}
        assert {p["targetPort"] for p in service["spec"]["ports"]} <= ports, service


def test_workloads_choose_their_own_pods_and_nothing_else(case):
    for w in case[1].workloads():
        selector = w["spec"]["selector"]["matchLabels"]
        assert case[1].chosen(selector) == [w]
        tests = [m["labels"] for _, m, _ in case[1].pods() if m["labels"].get("app.kubernetes.io/component") == "test"]
        assert tests and not any(selector.items() <= labels.items() for labels in tests)
        if w["kind"] == "StatefulSet":
            assert case[1].one("Service", w["spec"]["serviceName"])["spec"].get("clusterIP", "None") == "None" or case[1].of("StatefulSet") == [w]


def test_budgets_and_scalers_are_for_workloads_that_exist(case):
    for budget in case[1].of("PodDisruptionBudget"):
        assert len(case[1].chosen(budget["spec"]["selector"]["matchLabels"])) == 1, budget
    scaled = []
    for scaler in case[1].of("HorizontalPodAutoscaler", "ScaledObject"):
        target = scaler["spec"]["scaleTargetRef"]
        w = case[1].one(target["kind"], target["name"])
        assert "replicas" not in w["spec"], "an upgrade would undo what the scaler did"
        scaled.append(w["metadata"]["name"])
    assert len(scaled) == len(set(scaled))
    for w in case[1].workloads():
        assert ("replicas" in w["spec"]) != (w["metadata"]["name"] in scaled)


def test_scalers_ask_for_metrics_that_there_are(case):
    for scaler in case[1].of("HorizontalPodAutoscaler"):
        for metric in scaler["spec"]["metrics"]:
            w = case[1].one(scaler["spec"]["scaleTargetRef"]["kind"], scaler["spec"]["scaleTargetRef"]["name"])
            if metric["type"] == "Resource":
                assert w["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            else:
                assert metric["pods"]["metric"]["name"].startswith("flametree_%s_" % w["metadata"]["labels"]["app.kubernetes.io/component"])


def test_ways_in_lead_to_services_and_their_ports(case):
    backends = [p["backend"]["service"] for i in case[1].of("Ingress") for r in i["spec"]["rules"] for p in r["http"]["paths"]]
    backends += [{"name": b["name"], "port": {"number": b["port"]}} for r in case[1].of("HTTPRoute") for rule in r["spec"]["rules"] for b in rule["backendRefs"]]
    for backend in backends:
        ports = case[1].one("Service", backend["name"])["spec"]["ports"]
        assert any(p["name"] == backend["port"].get("name") or p["port"] == backend["port"].get("number") for p in ports), backend


def test_pods_pass_the_restricted_standard(case):
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted, and a root file system that is read only."""
    taken = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    for name, _, spec in case[1].pods():
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        assert spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] > 0, name
        assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", name
        assert spec["automountServiceAccountToken"] is False, name
        assert all(v.keys() - {"name"} <= taken for v in spec["volumes"]), name
        for c in containers(spec):
            assert c["securityContext"]["allowPrivilegeEscalation"] is False and c["securityContext"]["capabilities"] == {"drop": ["ALL"]}, name
            assert c["securityContext"]["readOnlyRootFilesystem"] is True and "privileged" not in c["securityContext"], name
            assert not [p for p in c.get("ports", []) if "hostPort" in p], name


def test_volumes_and_settings_that_pods_use_are_there(case):
    for name, _, spec in case[1].pods():
        volumes = {v["name"]: v for v in spec["volumes"]}
        claims = {c["metadata"]["name"] for w in case[1].of("StatefulSet") if w["metadata"]["name"] == name for c in w["spec"].get("volumeClaimTemplates", [])}
        for c in containers(spec):
            assert {m["name"] for m in c["volumeMounts"]} <= volumes.keys() | claims, name
            assert not [m for m in c["volumeMounts"] if m["mountPath"].startswith("/secrets") and not m.get("readOnly")], name
        assert not volumes.keys() & claims, name
        for v in volumes.values():
            if "configMap" in v:
                case[1].one("ConfigMap", v["configMap"]["name"])
        account = spec.get("serviceAccountName")
        assert not account or account == "shared" or case[1].one("ServiceAccount", account)
        priority = spec.get("priorityClassName")
        assert not priority or case[1].one("PriorityClass", priority)


def test_secrets_are_named_and_must_exist(case):
    """With `optional` a pod without its key would start and be refused by the bucket; so Kubernetes names the key that is missing."""
    text = case[1].text
    assert "optional:" not in text and not case[1].of("Secret")
    for _, _, spec in case[1].pods():
        for c in containers(spec):
            for e in c.get("env", []):
                if re.search("KEY|SECRET|PASSWORD|TOKEN", e["name"]):
                    assert e["valueFrom"]["secretKeyRef"].keys() == {"name", "key"}, e


def test_why_a_process_ended_is_in_the_state_of_the_pod(case):
    """Wrong keys end it with a line that names the setting or the variable (tests/s3/test_bad_input.py)."""
    assert all(w["spec"]["template"]["spec"]["containers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError" for w in case[1].workloads())


def test_probes_tell_a_long_start_from_a_dead_process(case):
    for w in case[1].workloads():
        c = w["spec"]["template"]["spec"]["containers"][0]
        for probe, path in (("startupProbe", "/live"), ("livenessProbe", "/live"), ("readinessProbe", "/ready")):
            asked = c[probe]["httpGet"]
            assert asked["path"] == path and asked["port"] in {p["name"] for p in c["ports"]}, w["metadata"]["name"]
            assert asked["scheme"] == ("HTTPS" if "tls" in case[0] else "HTTP")
        stop = c["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert 0 < stop < w["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]


def test_memory_fits_the_limits_of_the_container(case):
    """Resident memory was measured to be up to a quarter above what budgets count (docs/sizing.md)."""
    for w in case[1].workloads():
        resources = w["spec"]["template"]["spec"]["containers"][0]["resources"]
        role = w["metadata"]["labels"]["app.kubernetes.io/component"]
        budget = re.search(r"memory_limit: (\S+)", case[1].settings(role))[1]
        assert size(budget) * 5 / 4 <= size(resources["limits"]["memory"]), role
        assert size(resources["requests"]["memory"]) <= size(resources["limits"]["memory"]), role
        head = re.search(r"head_memory: (\S+)", case[1].settings(role))
        assert not head or size(head[1]) <= size(budget) * 3 / 4, role


def test_caches_fit_their_volume(case):
    """A pod that takes more than the size of its emptyDir is evicted."""
    for w in case[1].workloads():
        role = w["metadata"]["labels"]["app.kubernetes.io/component"]
        cache = re.search(r"disk_cache: (\S+)", case[1].settings(role))
        data = [v for v in w["spec"]["template"]["spec"]["volumes"] if v["name"] == "data"]
        assert (role == "querier") == bool(cache)
        if cache and "sizeLimit" in data[0]["emptyDir"]:
            assert size(cache[1]) <= size(data[0]["emptyDir"]["sizeLimit"]) * 3 / 4
        elif cache:
            assert size(cache[1]) == 0


def test_ports_of_policies_are_those_of_pods(case):
    policies = case[1].of("NetworkPolicy")
    assert len(policies) == (case[0] != "no-policy")
    ports = {p["name"] for w in case[1].workloads() for p in w["spec"]["template"]["spec"]["containers"][0]["ports"]}
    for policy in policies:
        assert len(case[1].chosen(policy["spec"]["podSelector"]["matchLabels"])) == len(case[1].workloads())
        named = {p["port"] for rule in policy["spec"]["ingress"] for p in rule.get("ports", [])}
        assert named == ports - {"internal"}, "the internal port is for the release alone"


def test_programs_take_the_settings(case, machine):
    """With the variables of the container, and the folders of a pod somewhere else."""
    name, rendering = case
    overrides = [c for c in rendering.of("ConfigMap") if "overrides.yaml" in c["data"]]
    assert len(overrides) == 1
    (machine / "config/overrides/overrides.yaml").write_text(overrides[0]["data"]["overrides.yaml"])
    for w in rendering.workloads():
        role = w["metadata"]["labels"]["app.kubernetes.io/component"]
        c = w["spec"]["template"]["spec"]["containers"][0]
        file = machine / (role + ".yaml")
        file.write_text(re.sub(r"(?<![\w.])/(config|data|secrets|store)\b", r"%s/\1" % machine, rendering.settings(role)))
        told = {e["name"]: e.get("value", "127.0.0.1") for e in c["env"]}
        told = {k: v.replace("$(POD_IP)", "127.0.0.1") for k, v in told.items()}
        program = os.path.join(BIN, os.path.basename(c["command"][0]))
        assert c["args"] == ["--config", "/config/flametree/flametree.yaml"]
        done = subprocess.run([program, "--config", file, "--check-config"], env={**WITHOUT_SETTINGS, **told}, capture_output=True, text=True)
        assert done.returncode == 0, (name, role, done.stderr, file.read_text())
        warned = [line for line in done.stderr.splitlines() if line]
        assert not warned, (name, role, warned)


def test_volumes_of_their_own_say_what_they_are(case):
    for _, _, spec in case[1].pods():
        assert all(isinstance(v[kind], dict) for v in spec["volumes"] for kind in v.keys() - {"name"}), spec["volumes"]


def test_settings_of_a_cluster_name_its_services():
    r = template(BUCKET)
    for role in ROLES:
        for name, port, service in re.findall(r"dns:_(\w+)\._(\w+)\.([\w-]+)\.%s\.svc" % NAMESPACE, r.settings(role)):
            spec = r.one("Service", service)["spec"]
            assert spec["clusterIP"] == "None" and spec["publishNotReadyAddresses"] and name in [p["name"] for p in spec["ports"]] and port == "tcp"


def test_ways_in_lead_each_request_to_a_service_that_answers_it():
    """What is posted to a distributor alone goes to distributors, and what is asked of a querier alone to queriers."""
    def routes(role):
        with Flametree("--internal.listen", "127.0.0.1:0", "--cluster.ingesters=a=127.0.0.1:1", program="flametree-" + role) as f:
            rows = [line.split(" ") for line in f.operator().call("GET", "/routes").expect(200).text.splitlines()]
        return {path.replace("*", "x") for verbs, path, whose in rows if whose != "all-tenants" and (role == "querier" or "POST" in verbs)}
    served = {role: routes(role) for role in ("distributor", "querier")}
    r = template({**CASES["ingress"][1], **CASES["gateway"][1]})
    ways = [{p["path"]: p["backend"]["service"]["name"] for i in r.of("Ingress") for rule in i["spec"]["rules"] for p in rule["http"]["paths"]},
            {m["path"]["value"]: rule["backendRefs"][0]["name"] for i in r.of("HTTPRoute") for rule in i["spec"]["rules"] for m in rule["matches"]}]
    for way in ways:
        for role, other in (("distributor", "querier"), ("querier", "distributor")):
            for path in served[role] - served[other]:
                longest = max((at for at in way if (path + "/").startswith(at.rstrip("/") + "/")), key=len)
                assert way[longest] == "ft-flametree-" + role, (path, way)


def test_a_prefix_of_paths_is_in_all_ways_in_and_in_the_settings():
    """Probes, and addresses within the cluster, have none."""
    plain, below = (template({**CASES["below-a-path"][1], "pathPrefix": prefix}) for prefix in ("", "/shop/flametree"))

    def paths(rendering):
        ingress, = rendering.of("Ingress")
        route, = rendering.of("HTTPRoute")
        return ([p["path"] for rule in ingress["spec"]["rules"] for p in rule["http"]["paths"]], [m["path"]["value"] for rule in route["spec"]["rules"] for m in rule["matches"]])
    for without, within in zip(paths(plain), paths(below), strict=True):
        assert without[-1] == "/" and within == [("/shop/flametree" + path).removesuffix("/") for path in without]
    for role in ROLES:
        assert yaml.safe_load(below.settings(role))["server"]["path_prefix"] == "/shop/flametree" and "path_prefix" not in yaml.safe_load(plain.settings(role))["server"]
        container, = below.role(role)["spec"]["template"]["spec"]["containers"]
        assert container["readinessProbe"]["httpGet"]["path"] == "/ready"


def test_objects_are_for_one_release_alone():
    """Two releases in one namespace share no object and choose none of the other's pods."""
    a, b = template(BUCKET, release="a"), template(BUCKET, release="b")
    names = [{(d["kind"], d["metadata"]["name"]) for d in r.docs} for r in (a, b)]
    assert not names[0] & names[1]
    for service in a.of("Service"):
        assert not b.chosen(service["spec"]["selector"])


def test_a_change_of_overrides_restarts_no_pod_and_one_of_settings_does():
    def sums(values):
        return {w["metadata"]["name"]: w["spec"]["template"] for w in template({**BUCKET, **values}).workloads()}
    before = sums({})
    assert sums({"overrides": {"acme": {"ingestion_rate_mb": 5}}}) == before
    after = sums({"querier": {"config": {"cache_memory": "128MiB"}}})
    assert {name for name in before if before[name] != after[name]} == {"ft-flametree-querier"}


def test_two_releases_on_one_place_mark_it_alike():
    """By this annotation a release finds another one on its bucket and prefix, at install and upgrade (templates/validate.yaml)."""
    def place(**s3):
        return template({"storage": {"s3": {"bucket": "b", **s3}}}).one("ConfigMap", "ft-flametree-overrides")["metadata"]["annotations"]["flametree/store"]
    assert place(endpoint="http://minio:9000") == place(endpoint="http://minio:9000", region="x", existingSecret="keys")
    assert len({place(), place(prefix="x"), place(endpoint="http://minio:9000"), place(endpoint="http://other:9000")}) == 4
