//go:build !race

package deploy_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/testkit"
)

// unitUser is a user that systemd may choose for DynamicUser.
const unitUser = "61184:61184"

// machine is a machine without systemd, on which these tests do what systemd would do.
type machine struct {
	network *network
	root    string
	state   string // the StateDirectory
}

// install runs the first blocks of commands in the section systemd of the docs, in a folder with the
// files of an archive.
func install(t *testing.T, most int) *machine {
	t.Helper()
	m := &machine{network: newNetwork(t), root: ownedFolder(t, "0:0", 0o755), state: ownedFolder(t, unitUser, 0o700)}
	for _, folder := range []string{"usr/bin", "etc/systemd/system", "etc/redis", "var/lib"} {
		testkit.NoError(t, os.MkdirAll(filepath.Join(m.root, folder), 0o755))
	}
	own(t, write(t, m.path("/usr/bin/systemctl"), "#!/bin/sh\necho \"$@\" >>/called\n"), "0:0", 0o755)
	c := &container{
		network: m.network, root: m.root, user: "0:0", folder: "/archive", env: []string{"CAPTCHAAI_API_KEY=a-key"},
		mounts: append(programs(), mount{source: daemontest.Binary(t), target: "/archive/poold"},
			mount{source: ".", target: "/archive/deploy"}, mount{source: "../pools.yaml", target: "/archive/pools.yaml"}),
	}
	for _, block := range blocks(t, "deploying.md", "## systemd")[:most] {
		if output, err := c.run("/bin/sh", "-euc", block); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	called := "daemon-reload\nenable --now poold\nrestart redis-server poold\n"
	if got := read(t, m.path("/called")); got == "" || !strings.HasPrefix(called, got) {
		t.Errorf("the docs call systemctl with %q", got)
	}
	return m
}

// path returns the path of a file of the machine.
func (m *machine) path(path string) string { return filepath.Join(m.root, path) }

// credentials copies the credentials of the unit in the same way as systemd, and returns their folder.
func (m *machine) credentials(t *testing.T) string {
	t.Helper()
	folder := ownedFolder(t, unitUser, 0o500)
	for _, name := range unit(t, m.path(installedUnit))["LoadCredential"] {
		secret, err := os.ReadFile(m.path("/etc/credstore/" + name))
		if err == nil {
			own(t, write(t, filepath.Join(folder, name), string(secret)), unitUser, 0o400)
		}
	}
	return folder
}

const (
	installedUnit     = "/etc/systemd/system/poold.service"
	credentialsFolder = "/run/credentials/poold.service"
)

// start starts the unit with a folder of credentials. The system calls that the unit forbids stay
// allowed.
func (m *machine) start(t *testing.T, n *notifications, credentials string) *process {
	t.Helper()
	u := unit(t, m.path(installedUnit))
	state := "/var/lib/" + u["StateDirectory"][0]
	testkit.NoError(t, os.Chmod(n.path, 0o777))
	c := &container{
		network: m.network, root: m.root, readOnly: true, user: unitUser, umask: u["UMask"][0],
		folder: strings.Replace(u["WorkingDirectory"][0], "%S", "/var/lib", 1), command: strings.Fields(u["ExecStart"][0]),
		mounts: []mount{
			{m.state, state, true},
			{source: credentials, target: credentialsFolder},
			{source: filepath.Dir(n.path), target: "/run/systemd"},
		},
		env: []string{
			"NOTIFY_SOCKET=/run/systemd/" + filepath.Base(n.path), "STATE_DIRECTORY=" + state, "CREDENTIALS_DIRECTORY=" +
				credentialsFolder, fmt.Sprintf("WATCHDOG_USEC=%d", seconds(t, u["WatchdogSec"][0]).Microseconds()),
		},
	}
	return c.start(t)
}

// stop stops the unit.
func (m *machine) stop(t *testing.T, n *notifications, p *process) {
	t.Helper()
	p.stop(t, seconds(t, unit(t, m.path(installedUnit))["TimeoutStopSec"][0]))
	n.wait(t, 1, "STOPPING=1")
}

// The installed unit starts with the demo file, without any secret and any variable.
func TestUnitStartsWithTheDemoFile(t *testing.T) {
	t.Parallel()
	m, n := install(t, 1), listenForNotifications(t)
	p := m.start(t, n, m.credentials(t))
	n.wait(t, 1, "READY=1")
	p.checkRights(t)
	m.network.take(t, "127.0.0.1:8080", "")
	m.stop(t, n, p)
}

// The installed unit reads its secrets from credentials. A credential that becomes unreadable while
// poold runs changes nothing, and is logged once for each change.
func TestUnitReadsCredentials(t *testing.T) {
	t.Parallel()
	m, n := install(t, 2), listenForNotifications(t)
	pools := m.path("/etc/poold/pools.yaml")
	write(t, pools, m.network.provider(t).replaceURL(t, read(t, pools)))
	secret := func(name string) string { return strings.TrimSpace(read(t, m.path("/etc/credstore/"+name))) }
	m.network.redis(t, secret("redis-password"), m.path("/etc/redis/redis.conf"))
	credentials := m.credentials(t)
	p := m.start(t, n, credentials)
	n.wait(t, 1, "READY=1")
	p.checkRights(t)
	callersKey := secret("poold-key")
	m.network.take(t, "127.0.0.1:8080", callersKey)

	reload := strings.Replace(unit(t, m.path(installedUnit))["ExecReload"][0], "$MAINPID", strconv.Itoa(p.pid), 1)
	for round := 1; round <= 2; round++ {
		own(t, filepath.Join(credentials, "poold-key"), unitUser, 0)
		refused := func() int {
			return p.output.Count("level=ERROR", "the configuration was refused, the last good one stays in use",
				"server.keys.default.key: the file "+
					credentialsFolder+"/poold-key cannot be read: permission denied: allow the user of the daemon to read it")
		}
		p.within(t, 20*time.Second, "a line about the credential", func() bool { return refused() == round })
		reloads := n.Count("RELOADING=1")
		if output, err := exec.Command("/bin/sh", "-c", reload).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", reload, err, output)
		}
		n.wait(t, reloads+1, "RELOADING=1")
		n.wait(t, reloads+2, "READY=1")
		testkit.Equal(t, "refusals of the credential in the log", refused(), round)
		if status, body := m.network.call(10*time.Second, http.MethodGet, "http://127.0.0.1:8080/status.json",
			callersKey); status != http.StatusOK {
			t.Errorf("with the unreadable credential: %d %s", status, body)
		}
		own(t, filepath.Join(credentials, "poold-key"), unitUser, 0o400)
		p.within(t, 20*time.Second, "the end of the problem", func() bool {
			return p.output.Count(`msg="the configuration was applied" changes=""`) == round
		})
	}
	m.stop(t, n, p)
}
