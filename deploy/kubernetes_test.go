//go:build !race

package deploy_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"poold/internal/testkit"
)

// manifests are the objects of kubernetes.yaml.
type manifests struct {
	secret     core.Secret
	config     core.ConfigMap
	deployment apps.Deployment
	service    core.Service
	budget     policy.PodDisruptionBudget
}

func loadManifests(t *testing.T) *manifests {
	t.Helper()
	m := new(manifests)
	kinds := map[string]any{
		"v1 Secret": &m.secret, "v1 ConfigMap": &m.config, "apps/v1 Deployment": &m.deployment,
		"v1 Service": &m.service, "policy/v1 PodDisruptionBudget": &m.budget,
	}
	for text := range strings.SplitSeq(read(t, "kubernetes.yaml"), "---\n") {
		var kind meta.TypeMeta
		testkit.NoError(t, yaml.Unmarshal([]byte(text), &kind))
		name := kind.APIVersion + " " + kind.Kind
		if kinds[name] == nil {
			t.Fatalf("kubernetes.yaml has an unknown or second object %q", name)
		}
		testkit.NoError(t, yaml.UnmarshalStrict([]byte(text), kinds[name]))
		delete(kinds, name)
	}
	if len(kinds) > 0 {
		t.Fatalf("kubernetes.yaml lacks %v", kinds)
	}
	return m
}

// mounted writes the files of a Secret or ConfigMap in the same way as the kubelet: into a new folder,
// to which the link ..data then leads.
func mounted(t *testing.T, folder string, data map[string]string, group int64, mode os.FileMode) {
	t.Helper()
	before, _ := os.Readlink(filepath.Join(folder, "..data")) // "" at first
	version, err := os.MkdirTemp(folder, "..")
	testkit.NoError(t, err)
	testkit.NoError(t, os.Chmod(version, 0o755))
	for name, text := range data {
		own(t, write(t, filepath.Join(version, name), text), fmt.Sprintf("0:%d", group), mode)
	}
	testkit.NoError(t, os.Symlink(filepath.Base(version), filepath.Join(folder, "..data_tmp")))
	testkit.NoError(t, os.Rename(filepath.Join(folder, "..data_tmp"), filepath.Join(folder, "..data")))
	if before != "" {
		testkit.NoError(t, os.RemoveAll(filepath.Join(folder, before)))
		return
	}
	for name := range data {
		testkit.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name)))
	}
}

// pod is a replica of the Deployment.
type pod struct {
	*container

	address string // IP:PORT
	secrets string // folder of the mounted Secret
}

// pod returns a pod. POOLD_LISTEN has the IP address of the pod instead of 0.0.0.0, because the pods of
// a test share a network. No other value of the Deployment is replaced.
func (m *manifests) pod(t *testing.T, n *network, ip string, i image) *pod {
	t.Helper()
	spec := m.deployment.Spec.Template.Spec
	c, s := spec.Containers[0], spec.SecurityContext
	privileges := c.SecurityContext
	if *privileges.AllowPrivilegeEscalation || !slices.Equal(privileges.Capabilities.Drop, []core.Capability{"ALL"}) ||
		!*s.RunAsNonRoot {
		t.Errorf("the pod keeps privileges: %+v", privileges)
	}
	p := &pod{address: fmt.Sprintf("%s:%d", ip, c.Ports[0].ContainerPort)}
	hosts := write(t, filepath.Join(t.TempDir(), "hosts"), "127.0.0.1 localhost redis\n")
	own(t, hosts, "0:0", 0o644)
	p.container = &container{
		network: n, env: slices.Clone(i.env), user: fmt.Sprintf("%d:%d", *s.RunAsUser, *s.RunAsGroup), folder: i.folder,
		readOnly: *privileges.ReadOnlyRootFilesystem, command: slices.Concat(i.entrypoint, c.Command, c.Args),
		mounts: append(slices.Clone(i.files), mount{source: hosts, target: "/etc/hosts"}),
	}
	for _, v := range c.Env {
		p.env = append(p.env, v.Name+"="+strings.Replace(v.Value, "0.0.0.0", ip, 1))
	}
	for _, at := range c.VolumeMounts {
		folder := ownedFolder(t, fmt.Sprintf("0:%d", *s.FSGroup), 0o2777)
		volume := spec.Volumes[slices.IndexFunc(spec.Volumes, func(v core.Volume) bool { return v.Name == at.Name })]
		switch {
		case volume.ConfigMap != nil && volume.ConfigMap.Name == m.config.Name:
			mounted(t, folder, m.config.Data, *s.FSGroup, 0o644)
		case volume.Secret != nil && volume.Secret.SecretName == m.secret.Name:
			p.secrets = folder
			m.mountSecret(t, folder)
		case volume.EmptyDir == nil:
			t.Fatalf("the volume %s: %+v", at.Name, volume.VolumeSource)
		}
		p.mounts = append(p.mounts, mount{folder, at.MountPath, !at.ReadOnly})
	}
	return p
}

// mountSecret writes the values of the Secret into the folder of a pod.
func (m *manifests) mountSecret(t *testing.T, folder string) {
	t.Helper()
	spec := m.deployment.Spec.Template.Spec
	for _, v := range spec.Volumes {
		if v.Secret != nil {
			mounted(t, folder, m.secret.StringData, *spec.SecurityContext.FSGroup, os.FileMode(*v.Secret.DefaultMode))
		}
	}
}

// probe returns the status code that a probe of the pod gets, and 0 if poold does not answer in time.
func (m *manifests) probe(p *pod, probe *core.Probe) int {
	ip, _, _ := strings.Cut(p.address, ":")
	port := 0
	for _, named := range m.deployment.Spec.Template.Spec.Containers[0].Ports {
		if probe.HTTPGet.Port == intstr.FromString(named.Name) {
			port = int(named.ContainerPort)
		}
	}
	url := fmt.Sprintf("http://%s:%d%s", ip, port, probe.HTTPGet.Path)
	status, _ := p.network.call(time.Duration(probe.TimeoutSeconds)*time.Second, http.MethodGet, url, "")
	return status
}

// The objects refer to each other, and the pods have the time that a stop takes.
func TestKubernetesObjectsFit(t *testing.T) {
	t.Parallel()
	m := loadManifests(t)
	pods := labels.Set(m.deployment.Spec.Template.Labels)
	spec := m.deployment.Spec.Template.Spec
	for what, selector := range map[string]*meta.LabelSelector{
		"the Deployment": m.deployment.Spec.Selector, "the PodDisruptionBudget": m.budget.Spec.Selector,
		"the Service":    {MatchLabels: m.service.Spec.Selector},
		"the constraint": spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		compiled, err := meta.LabelSelectorAsSelector(selector)
		if err != nil || compiled.Empty() || !compiled.Matches(pods) {
			t.Errorf("%s selects %v, and the pods have %v: %v", what, selector, pods, err)
		}
	}
	c := spec.Containers[0]
	testkit.Equal(t, "the Service's port", m.service.Spec.Ports[0].TargetPort, intstr.FromString(c.Ports[0].Name))
	stop := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds)*time.Second + longestStop(t)
	testkit.AtLeast(t, "the time for a stop", time.Duration(*spec.TerminationGracePeriodSeconds)*time.Second, stop)
	testkit.Equal(t, "pools.yaml of the ConfigMap", m.config.Data["pools.yaml"], read(t, "config/pools.yaml"))
}

// Two replicas run as the Deployment says. An outage of Redis makes them unready, but does not restart
// them. They use a changed Secret without a restart.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	n, m := newNetwork(t), loadManifests(t)
	m.secret.StringData = map[string]string{"captchaai-key": "a-key", "poold-key": "first-key-of-callers",
		"redis-password": "a-password"}
	m.config.Data["pools.yaml"] = n.provider(t).replaceURL(t, m.config.Data["pools.yaml"])
	startRedis := func() func() {
		redis := n.redis(t, "a-password", "--requirepass", "a-password", "--appendonly", "yes", "--maxmemory-policy",
			"noeviction")
		return func() { _ = redis.Process.Kill() }
	}
	stopRedis := startRedis()

	i := builtImage(t)
	var pods []*pod
	var running []*process
	for replica := range *m.deployment.Spec.Replicas {
		p := m.pod(t, n, fmt.Sprintf("127.0.0.%d", replica+2), i)
		pods, running = append(pods, p), append(running, p.start(t))
	}
	c := m.deployment.Spec.Template.Spec.Containers[0]
	probes := func(what string, ready int) {
		t.Helper()
		for i, p := range pods {
			running[i].within(t, 30*time.Second, what, func() bool { return m.probe(p, c.ReadinessProbe) == ready })
			testkit.Equal(t, what+": the liveness probe", m.probe(p, c.LivenessProbe), http.StatusOK)
		}
	}
	probes("ready pods", http.StatusOK)
	for i, p := range pods {
		running[i].checkRights(t)
		n.take(t, p.address, "first-key-of-callers")
	}
	stopRedis()
	probes("unready pods", http.StatusServiceUnavailable)
	startRedis()
	probes("ready pods after the outage", http.StatusOK)

	for _, key := range []string{"second-key-of-callers", "third-key-of-callers"} {
		before := m.secret.StringData["poold-key"]
		m.secret.StringData["poold-key"] = key
		for i, p := range pods {
			m.mountSecret(t, p.secrets)
			// The poll after 30 s is a fallback.
			running[i].within(t, 20*time.Second, "the new key", func() bool { return n.refuses(p.address, before) })
			testkit.Equal(t, p.address+" refuses the new key", n.refuses(p.address, key), false)
		}
	}
	for i, p := range running {
		grace := *m.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds
		p.stop(t, time.Duration(grace-c.Lifecycle.PreStop.Sleep.Seconds)*time.Second)
		testkit.Within(t, 20*time.Second, "the port to be closed",
			func() bool { return m.probe(pods[i], c.LivenessProbe) == 0 })
	}
}
