//go:build !race

package deploy_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"poold/internal/testkit"
)

// project is compose.yaml, as docker compose reads it.
type project struct {
	*types.Project

	network *network
	hosts   string            // path of the file with the names of the services
	volumes map[string]string // folder of each named volume
}

func loadProject(t *testing.T, path string) *project {
	t.Helper()
	loaded, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: filepath.Dir(path), ConfigFiles: []types.ConfigFile{{Filename: path}},
	}, loader.WithDiscardEnvFiles)
	testkit.NoError(t, err)
	return &project{
		Project: loaded, network: newNetwork(t), volumes: map[string]string{},
		hosts: write(t, filepath.Join(t.TempDir(), "hosts"), "127.0.0.1 localhost "+strings.Join(loaded.ServiceNames(), " ")+
			"\n"),
	}
}

// container returns the container of a service.
func (p *project) container(t *testing.T, name string, i image) *container {
	t.Helper()
	s := p.Services[name]
	// The sandbox gives no privileges, so compose.yaml must not need any.
	if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) ||
		s.Privileged || len(s.CapAdd) > 0 {
		t.Errorf("%s keeps privileges: cap_drop %q, security_opt %q", name, s.CapDrop, s.SecurityOpt)
	}
	c := &container{
		network: p.network, env: i.env, user: cmp.Or(s.User, i.user), folder: cmp.Or(s.WorkingDir, i.folder),
		readOnly: s.ReadOnly, command: slices.Concat(i.entrypoint, s.Command),
		mounts: append(slices.Clone(i.files), mount{source: p.hosts, target: "/etc/hosts"}),
	}
	own(t, p.hosts, "0:0", 0o644)
	for _, v := range s.Volumes {
		source := v.Source
		if v.Type == types.VolumeTypeVolume { // docker copies the owner from the image
			if p.volumes[v.Source] == "" {
				p.volumes[v.Source] = ownedFolder(t, i.owners[v.Target], 0o755)
			}
			source = p.volumes[v.Source]
		}
		c.mounts = append(c.mounts, mount{source, v.Target, !v.ReadOnly})
	}
	for _, secret := range s.Secrets {
		target := cmp.Or(secret.Target, secret.Source)
		if !filepath.IsAbs(target) {
			target = "/run/secrets/" + target
		}
		c.mounts = append(c.mounts, mount{source: p.Secrets[secret.Source].File, target: target})
	}
	return c
}

// healthy runs the health check of a service once.
func (p *project) healthy(t *testing.T, name string, c *container) error {
	t.Helper()
	check := p.Services[name].HealthCheck
	command := []string(check.Test[1:])
	if check.Test[0] == "CMD-SHELL" {
		command = append([]string{"/bin/sh", "-c"}, command...)
	}
	began := time.Now()
	output, err := c.run(command...)
	if took := time.Since(began); took > time.Duration(*check.Timeout) {
		return fmt.Errorf("the check took %v: %s", took, output)
	}
	return err
}

// up starts a service, and returns when it is healthy.
func (p *project) up(t *testing.T, name string, i image) *process {
	t.Helper()
	c := p.container(t, name, i)
	if err := p.healthy(t, name, c); err == nil {
		t.Errorf("%s is healthy before its start", name)
	}
	running := c.start(t)
	running.within(t, 30*time.Second, name+" to be healthy", func() bool { return p.healthy(t, name, c) == nil })
	running.checkRights(t)
	return running
}

// down stops a service within its grace period.
func (p *project) down(t *testing.T, name string, running *process) {
	t.Helper()
	running.stop(t, time.Duration(*p.Services[name].StopGracePeriod))
}

// prepareProject copies the files of the project, runs the commands of the docs that create the secrets,
// and returns the folder of compose.yaml.
func prepareProject(t *testing.T) (folder string) {
	t.Helper()
	top := t.TempDir()
	folder = filepath.Join(top, "deploy")
	testkit.NoError(t, os.CopyFS(filepath.Join(folder, "config"), os.DirFS("config")))
	write(t, filepath.Join(folder, "compose.yaml"), read(t, "compose.yaml"))
	bash(t, top, blocks(t, "deploying.md", "## Compose")[0], []string{"CAPTCHAAI_API_KEY=first-key"})
	return folder
}

// Both services of compose.yaml run as it says, and the steps of the docs rotate the secrets while poold
// runs.
func TestCompose(t *testing.T) {
	t.Parallel()
	folder := prepareProject(t)
	secret := func(name string) string { return filepath.Join(folder, "secrets", name) }
	p := loadProject(t, filepath.Join(folder, "compose.yaml"))
	solver := p.network.provider(t)
	pools := filepath.Join(folder, "config", "pools.yaml")
	write(t, pools, solver.replaceURL(t, read(t, pools)))

	// /data has the same owner as in the image redis:7-alpine.
	redisImage := image{files: programs(), folder: "/", owners: map[string]string{"/data": "999:1000"}}
	redis := p.up(t, "redis", redisImage)
	ours := builtImage(t)
	poold := p.up(t, "poold", ours)
	p.checkImage(t, ours, poold)
	callersKey := strings.TrimSpace(read(t, secret("poold-key")))
	p.network.take(t, "127.0.0.1:"+ours.port, callersKey)

	applied := func(limit time.Duration, count int) {
		t.Helper()
		poold.within(t, limit, "the secret to be applied",
			func() bool { return poold.output.Count("the configuration was applied") >= count })
	}
	// Without a signal, poold notices the change within a minute.
	write(t, secret("captchaai-key"), "second-key")
	applied(time.Minute, 1)
	testkit.Within(t, 60*time.Second, "a request with the second key", func() bool {
		return strings.Contains(solver.last.Load().(string), "key=second-key")
	})

	old := strings.TrimSpace(read(t, secret("redis-password")))
	setPassword(t, redis, ">second-password")
	write(t, secret("redis-password"), "second-password")
	testkit.NoError(t, syscall.Kill(poold.pid, syscall.SIGHUP))
	applied(10*time.Second, 2)
	setPassword(t, redis, "<"+old)
	// A restarted Redis accepts only the new password, and closes all connections.
	p.down(t, "redis", redis)
	redis = p.up(t, "redis", redisImage)
	poold.within(t, 20*time.Second, "poold to be healthy",
		func() bool { return p.healthy(t, "poold", poold.container) == nil })
	p.down(t, "poold", poold)
	p.down(t, "redis", redis)
}

// checkImage compares the service poold with the image.
func (p *project) checkImage(t *testing.T, i image, running *process) {
	t.Helper()
	if output, err := running.container.run(i.health...); err != nil {
		t.Errorf("the health check of the image: %v: %s", err, output)
	}
	s := p.Services["poold"]
	if port := s.Ports[0]; port.HostIP != "127.0.0.1" || port.Published != i.port || fmt.Sprint(port.Target) != i.port {
		t.Errorf("the port %+v, and the image exposes %s", port, i.port)
	}
	if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
		return v.Target == i.volume && v.Type == types.VolumeTypeVolume
	}) {
		t.Errorf("no volume is at %s, where the image has its volume", i.volume)
	}
	testkit.AtLeast(t, "stop_grace_period", time.Duration(*s.StopGracePeriod), longestStop(t))
}

// setPassword adds or removes a password of Redis by the command of the docs.
func setPassword(t *testing.T, redis *process, rule string) {
	t.Helper()
	text := strings.Join(strings.Fields(sectionOf(t, "deploying.md", "## Compose")), " ")
	change := found(`docker compose exec redis sh -c '([^']+)'`, text)
	if len(change) != 1 || !strings.Contains(change[0], `">NEW"`) {
		t.Fatalf("docs/deploying.md does not say how to change the password: %q", change)
	}
	if output, err := redis.container.run("sh", "-c", strings.Replace(change[0], ">NEW", rule, 1)); err != nil ||
		output != "OK\n" {
		t.Errorf("%s with %s: %v: %s", change[0], rule, err, output)
	}
}
