// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kubernetesFolder holds the manifests.
const kubernetesFolder = root + "/packaging/kubernetes"

// decoder decodes what is in YAML as the API server does with strict validation: unknown and repeated members are errors.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, core.AddToScheme, networking.AddToScheme, monitoring.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// manifests are the objects of a kustomization, by kind and name.
type manifests struct {
	sets     map[string]*apps.StatefulSet
	services map[string]*core.Service
	configs  map[string]*core.ConfigMap
	spaces   map[string]*core.Namespace
	policies map[string]*networking.NetworkPolicy
	monitors map[string]*monitoring.PodMonitor
}

// decode decodes documents of YAML.
func decode(text []byte) (*manifests, error) {
	m := &manifests{
		sets: map[string]*apps.StatefulSet{}, services: map[string]*core.Service{}, configs: map[string]*core.ConfigMap{},
		spaces: map[string]*core.Namespace{}, policies: map[string]*networking.NetworkPolicy{},
		monitors: map[string]*monitoring.PodMonitor{},
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		switch o := object.(type) {
		case *apps.StatefulSet:
			m.sets[o.Name] = o
		case *core.Service:
			m.services[o.Name] = o
		case *core.ConfigMap:
			m.configs[o.Name] = o
		case *core.Namespace:
			m.spaces[o.Name] = o
		case *networking.NetworkPolicy:
			m.policies[o.Name] = o
		case *monitoring.PodMonitor:
			m.monitors[o.Name] = o
		default:
			return nil, fmt.Errorf("nothing is known of a %T", object)
		}
	}
	return m, nil
}

// build builds the kustomization in a folder, as "kubectl apply -k" does, with some of its text replaced.
func build(t *testing.T, folder, file, old, replacement string) ([]byte, error) {
	t.Helper()
	inMemory := filesys.MakeFsInMemory()
	replaced := old == ""
	err := filepath.WalkDir(kubernetesFolder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(kubernetesFolder, path)
		if err != nil {
			return err
		}
		if old != "" && name == file && bytes.Contains(text, []byte(old)) {
			text, replaced = bytes.Replace(text, []byte(old), []byte(replacement), 1), true
		}
		// A kustomization merges members that are repeated, and may drop what it does not know.
		if filepath.Base(name) != "Caddyfile" && filepath.Base(name) != "kustomization.yaml" {
			if _, err := decode(text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return inMemory.WriteFile("/kubernetes/"+filepath.ToSlash(name), text)
	})
	if err != nil {
		return nil, err
	}
	if !replaced {
		t.Fatalf("%s: got no %q, want it to replace it", file, old)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(inMemory, "/kubernetes/"+folder)
	if err != nil {
		return nil, err
	}
	return resources.AsYaml()
}

// duration is a setting of a Caddyfile.
var duration = regexp.MustCompile(`(?m)^\s(shutdown_delay|grace_period) (\S+)$`)

// misfits returns what Kubernetes accepts one by one, and what does not fit together.
func (m *manifests) misfits() (found []string) {
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	set := m.sets["moderation"]
	if set == nil || len(set.Spec.Template.Spec.Containers) != 1 {
		return []string{"no StatefulSet moderation with one container"}
	}
	pod := set.Spec.Template
	container := pod.Spec.Containers[0]
	inPod := labels.Set(pod.Labels)

	// The standards for pods, by the code that the API server enforces them with.
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return []string{err.Error()}
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			add("not restricted: %s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
	if space := m.spaces[set.Namespace]; space == nil {
		add("the namespace %q is none of the manifests", set.Namespace)
	} else if space.Labels[api.EnforceLevelLabel] != string(api.LevelRestricted) {
		add("the namespace does not enforce the standard")
	}
	if s := container.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		add("the root file system can be written")
	}
	if token := pod.Spec.AutomountServiceAccountToken; token == nil || *token {
		add("the pod gets a token of the cluster")
	}

	// One process has the database.
	if set.Spec.Replicas == nil || *set.Spec.Replicas != 1 {
		add("the database belongs to one pod")
	}
	if !selects(set.Spec.Selector, inPod) {
		add("the StatefulSet does not select its own pod")
	}
	if m.services[set.Spec.ServiceName] == nil {
		add("the StatefulSet's service %q is none of the manifests", set.Spec.ServiceName)
	}

	// Ports.
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for name, service := range m.services {
		if !labels.SelectorFromSet(service.Spec.Selector).Matches(inPod) || len(service.Spec.Selector) == 0 {
			add("the service %s does not select the pod", name)
		}
		for _, p := range service.Spec.Ports {
			if ports[p.TargetPort.StrVal] == 0 {
				add("the service's port %s leads nowhere", p.Name)
			}
		}
	}
	for name, probe := range map[string]*core.Probe{
		"startup": container.StartupProbe, "readiness": container.ReadinessProbe, "liveness": container.LivenessProbe,
	} {
		switch {
		case probe == nil || probe.HTTPGet == nil:
			add("no %s probe by HTTP", name)
		case ports[probe.HTTPGet.Port.StrVal] == 0:
			add("the %s probe asks a port that nobody has", name)
		case (name == "liveness") != strings.HasSuffix(probe.HTTPGet.Path, "/live"):
			add("the %s probe asks %s", name, probe.HTTPGet.Path)
		}
	}
	for name, p := range m.policies {
		if !selects(&p.Spec.PodSelector, inPod) {
			add("the policy %s does not select the pod", name)
		}
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				if port.Port == nil || ports[port.Port.StrVal] == 0 {
					add("the policy %s lets traffic to a port that nobody has", name)
				}
			}
		}
	}
	for name, monitor := range m.monitors {
		if !selects(&monitor.Spec.Selector, inPod) {
			add("the monitor %s does not select the pod", name)
		}
		for _, endpoint := range monitor.Spec.PodMetricsEndpoints {
			if endpoint.Port == nil || ports[*endpoint.Port] == 0 {
				add("the monitor %s asks a port that nobody has", name)
			}
		}
	}
	if port := pod.Annotations["prometheus.io/port"]; port != fmt.Sprint(ports["metrics"]) {
		add("Prometheus is sent to port %q", port)
	}

	// Volumes, and what the Caddyfile counts on.
	volumes := map[string]bool{}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		volumes[claim.Name] = true
	}
	caddyfile := ""
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap != nil {
			if config := m.configs[v.ConfigMap.Name]; config != nil {
				caddyfile = config.Data["Caddyfile"]
			}
		}
	}
	if caddyfile == "" {
		add("no mounted ConfigMap has a Caddyfile")
	}
	mounted := map[string]string{}
	for _, v := range container.VolumeMounts {
		mounted[v.MountPath] = v.Name
		if !volumes[v.Name] {
			add("the volume %s is mounted and missing", v.Name)
		}
	}
	for path, file := range map[string]string{
		"/data": "storage badger /data/moderation", "/etc/caddy": "", "/run/secrets/moderation": "{file./run/secrets/moderation/",
	} {
		if mounted[path] == "" || !strings.Contains(caddyfile, file) {
			add("%s is not mounted, or the Caddyfile has no %q", path, file)
		}
	}
	for name, port := range ports {
		if !strings.Contains(caddyfile, fmt.Sprintf("\n:%d {", port)) {
			add("the Caddyfile has no site on the port %s", name)
		}
	}
	var stopping time.Duration
	for _, setting := range duration.FindAllStringSubmatch(caddyfile, -1) {
		d, err := time.ParseDuration(setting[2])
		if err != nil {
			add("%s: %v", setting[0], err)
		}
		stopping += d
	}
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace == nil || time.Duration(*grace)*time.Second < stopping+10*time.Second {
		add("the pod is killed before it has ended: it may need %s and the end of the store", stopping)
	}
	slices.Sort(found)
	return found
}

func selects(selector *meta.LabelSelector, pod labels.Set) bool {
	if selector == nil {
		return false
	}
	s, err := meta.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(pod)
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"base", "monitoring"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			text, err := build(t, folder, "", "", "")
			if err != nil {
				t.Fatal(err)
			}
			m, err := decode(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, misfit := range m.misfits() {
				t.Error(misfit)
			}
			if folder == "monitoring" && len(m.monitors) != 1 {
				t.Errorf("got %d monitors, want 1", len(m.monitors))
			}
		})
	}
}

// TestBadKubernetes: each slip is noticed.
func TestBadKubernetes(t *testing.T) {
	t.Parallel()
	const set = "statefulset.yaml"
	for name, row := range map[string]struct{ file, old, replacement, want string }{
		"unknown member":     {set, "serviceName:", "serviceNam:", `unknown field "spec.serviceNam"`},
		"repeated member":    {set, "replicas: 1", "replicas: 1\n  replicas: 1", `key "replicas" already set`},
		"wrong type":         {set, "replicas: 1", "replicas: one", "cannot unmarshal string"},
		"wrong version":      {set, "apps/v1", "apps/v2", "apps/v2"},
		"unknown file":       {"kustomization.yaml", "- service.yaml", "- servic.yaml", "servic.yaml"},
		"two pods":           {set, "replicas: 1", "replicas: 2", "the database belongs to one pod"},
		"root":               {set, "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot != true"},
		"user 0":             {set, "runAsUser: 65532", "runAsUser: 0", "runAsUser=0"},
		"escalation":         {set, "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "allowPrivilegeEscalation != false"},
		"capabilities":       {set, "drop: [ALL]", "drop: [CHOWN]", "unrestricted capabilities"},
		"no profile":         {set, "type: RuntimeDefault", "type: Unconfined", "seccompProfile"},
		"writable":           {set, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "the root file system can be written"},
		"token":              {set, "automountServiceAccountToken: false", "automountServiceAccountToken: true", "token"},
		"no standard":        {"namespace.yaml", "pod-security.kubernetes.io/enforce: restricted", "a: b", "does not enforce"},
		"other port":         {set, "containerPort: 8080", "containerPort: 8081", "no site on the port http"},
		"probe without port": {set, "port: http\n", "port: htpt\n", "probe asks a port that nobody has"},
		"probe of readiness": {set, "path: /health/live", "path: /health/ready", "the liveness probe asks /health/ready"},
		"service to nowhere": {"service.yaml", "targetPort: http", "targetPort: htpt", "leads nowhere"},
		"policy for no port": {"networkpolicy.yaml", "port: metrics", "port: metric", "a port that nobody has"},
		"annotation":         {set, `port: "9180"`, `port: "9181"`, "Prometheus is sent to port"},
		"missing volume":     {set, "- name: keys\n          secret:", "- name: key\n          secret:", "the volume keys is mounted and missing"},
		"elsewhere":          {set, "mountPath: /data", "mountPath: /date", "/data is not mounted"},
		"killed too early":   {set, "terminationGracePeriodSeconds: 40", "terminationGracePeriodSeconds: 30", "killed before it has ended"},
		"longer grace":       {"Caddyfile", "grace_period 20s", "grace_period 2m", "killed before it has ended"},
		"no metrics site":    {"Caddyfile", ":9180 {", ":9181 {", "no site on the port metrics"},
		"no configuration":   {"kustomization.yaml", "name: moderation-config", "name: config", "no mounted ConfigMap"},
		"unselected":         {"networkpolicy.yaml", "podSelector: {}", "podSelector: {matchLabels: {a: b}}", "does not select the pod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got string
			text, err := build(t, "base", "base/"+row.file, row.old, row.replacement)
			if err == nil {
				var m *manifests
				if m, err = decode(text); err == nil {
					got = strings.Join(m.misfits(), "\n")
				}
			}
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, row.want) {
				t.Errorf("got %q, want %q in it", got, row.want)
			}
		})
	}
}
