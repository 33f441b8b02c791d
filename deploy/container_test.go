//go:build !race

package deploy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/testkit"
)

// image describes the image of a container.
type image struct {
	files      []mount
	owners     map[string]string // UID:GID of a folder, if it is not root
	env        []string
	user       string // UID:GID
	folder     string // working directory
	port       string
	volume     string
	entrypoint []string
	health     []string // command of the health check
}

// mount shows a file or folder of the machine in a container.
type mount struct {
	source, target string
	writable       bool
}

// programs returns the machine's programs, which these tests run instead of the programs of images.
// The folder /usr of the container stays empty.
func programs() (files []mount) {
	for _, folder := range []string{"/bin", "/lib", "/lib64"} {
		if _, err := os.Stat("/usr" + folder); err == nil {
			files = append(files, mount{source: "/usr" + folder, target: folder})
		}
	}
	return files
}

// builtImage returns what the last stage of the Dockerfile declares.
func builtImage(t *testing.T) image {
	t.Helper()
	text := read(t, "../Dockerfile")
	_, stage, _ := strings.Cut(text[strings.LastIndex(text, "\nFROM "):], "scratch\n")
	i := image{owners: map[string]string{}}
	for line := range strings.Lines(strings.ReplaceAll(stage, "\\\n", " ")) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch instruction {
		case "#":
		case "COPY":
			i.copy(t, strings.Fields(rest))
		case "WORKDIR":
			i.folder = rest
		case "VOLUME":
			i.volume = rest
		case "ENV":
			i.env = append(i.env, strings.Fields(rest)...)
		case "USER":
			i.user = rest
		case "EXPOSE":
			i.port = rest
		case "HEALTHCHECK":
			_, command, _ := strings.Cut(rest, "CMD ")
			i.health = list(t, command)
		case "ENTRYPOINT":
			i.entrypoint = list(t, rest)
		default:
			t.Fatalf("the Dockerfile has a new instruction, which this function must support: %s", line)
		}
	}
	return i
}

// copy adds a file of the instruction COPY to the image.
func (i *image) copy(t *testing.T, words []string) {
	t.Helper()
	options, file := words[:len(words)-2], mount{source: words[len(words)-2], target: words[len(words)-1]}
	if strings.HasSuffix(file.target, "/") {
		file.target += filepath.Base(file.source)
	}
	build := false
	for _, option := range options {
		build = build || option == "--from=build"
		if owner, is := strings.CutPrefix(option, "--chown="); is {
			i.owners[file.target] = owner
		}
	}
	file.source = filepath.Join("..", file.source)
	if build {
		file.source = map[string]string{
			"../out/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt",
			"../out/poold":                     daemontest.Binary(t),
			"../out/data":                      t.TempDir(),
		}[file.source]
	}
	i.files = append(i.files, file)
}

// list returns the words of an instruction in the form of a JSON array.
func list(t *testing.T, text string) (words []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &words); err != nil {
		t.Fatalf("Dockerfile: %s: %v", text, err)
	}
	return words
}

// ownedFolder returns a new folder that belongs to UID:GID.
func ownedFolder(t *testing.T, owner string, mode os.FileMode) string {
	t.Helper()
	folder := t.TempDir()
	own(t, folder, owner, mode)
	return folder
}

func own(t *testing.T, path, owner string, mode os.FileMode) {
	t.Helper()
	user, group, _ := strings.Cut(owner, ":")
	uid, err1 := strconv.Atoi(user)
	gid, err2 := strconv.Atoi(group)
	testkit.NoError(t, errors.Join(err1, err2, os.Chown(path, uid, gid), os.Chmod(path, mode)))
}

// container says how a container engine or systemd runs a program.
type container struct {
	network  *network
	root     string // the folder that is the root; "" = an empty one
	mounts   []mount
	env      []string
	user     string // UID:GID
	folder   string // working directory
	umask    string
	command  []string
	readOnly bool // whether the root is read-only
}

// sandbox is the root of a container, inside its mount namespace.
const sandbox = "/mnt"

// prepare returns a process that runs a command in the container, with the user's rights alone.
// bubblewrap makes the mounts, and unshare enters the root as the user.
func (c *container) prepare(options []string, command []string) *exec.Cmd {
	args := append(options, "--unshare-pid", "--as-pid-1", "--dev-bind", "/", "/")
	if c.root == "" {
		args = append(args, "--tmpfs", sandbox)
	} else {
		args = append(args, "--bind", c.root, sandbox)
	}
	args = append(args, "--proc", sandbox+"/proc", "--dev", sandbox+"/dev")
	for _, m := range c.mounts {
		kind := "--ro-bind"
		if m.writable {
			kind = "--bind"
		}
		// Without --dir, bubblewrap makes a parent that only root may enter.
		args = append(args, "--dir", sandbox+filepath.Dir(m.target), kind, m.source, sandbox+m.target)
	}
	if c.readOnly {
		args = append(args, "--remount-ro", sandbox)
	}
	user, group, _ := strings.Cut(c.user, ":")
	args = append(args, "--", "unshare", "--root="+sandbox, "--wd="+c.folder, "--setgid="+group, "--setuid="+user, "--")
	umask := "022"
	if c.umask != "" {
		umask = c.umask
	}
	shell := []string{"-c", `umask "$0" && exec bwrap "$@"`, umask}
	process := exec.Command("/bin/sh", append(shell, append(args, command...)...)...)
	// The variables of the container follow, because the last value of a variable counts.
	process.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, c.env...)
	return process
}

// run runs a command in the container until it ends, in the way of `docker exec`.
func (c *container) run(command ...string) (output string, err error) {
	process := c.prepare(nil, command)
	log := new(testkit.Log)
	process.Stdout, process.Stderr = log, log
	if err = c.network.inside(process.Start); err == nil {
		err = process.Wait()
	}
	return log.String(), err
}

// process is the running command of a container.
type process struct {
	container *container
	output    testkit.Log
	pid       int
	ended     chan error
}

// start starts the command of the container, and kills it when the test ends.
func (c *container) start(t *testing.T) *process {
	t.Helper()
	in, out, err := os.Pipe()
	testkit.NoError(t, err)
	defer func() { _ = in.Close() }()
	p := &process{container: c, ended: make(chan error, 1)}
	command := c.prepare([]string{"--info-fd", "3"}, c.command)
	command.ExtraFiles = []*os.File{out}
	command.Stdout, command.Stderr = &p.output, &p.output
	err = c.network.inside(command.Start)
	_ = out.Close()
	testkit.NoError(t, err)
	var info struct {
		PID int `json:"child-pid"`
	}
	if err := json.NewDecoder(in).Decode(&info); err != nil {
		t.Fatalf("bwrap: %v, %v: %s", err, command.Wait(), p.output.String())
	}
	p.pid = info.PID
	gone := make(chan struct{})
	go func() {
		p.ended <- command.Wait()
		close(gone)
	}()
	t.Cleanup(func() {
		select {
		case <-gone:
		default:
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
			<-gone
		}
		if t.Failed() {
			t.Logf("%s printed:\n%s", c.command, p.output.String())
		}
	})
	return p
}

// within waits until the condition holds, and fails the test if the process ends before.
func (p *process) within(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	testkit.Within(t, limit, what, func() bool {
		select {
		case err := <-p.ended:
			p.ended <- err
			t.Fatalf("waiting for %s: %s ended: %v", what, p.container.command, err)
		default:
		}
		return condition()
	})
}

// exit waits for the end of the process, and returns its exit code.
func (p *process) exit(t *testing.T, limit time.Duration) int {
	t.Helper()
	err := testkit.Receive(t, limit, "the end of "+fmt.Sprint(p.container.command), p.ended)
	if err == nil {
		return 0
	}
	exit, is := errors.AsType[*exec.ExitError](err)
	if !is {
		t.Fatal(err)
	}
	return exit.ExitCode()
}

// stop sends SIGTERM, and fails the test unless the process succeeds within the limit.
func (p *process) stop(t *testing.T, limit time.Duration) {
	t.Helper()
	testkit.NoError(t, syscall.Kill(p.pid, syscall.SIGTERM))
	if code := p.exit(t, limit); code != 0 {
		t.Errorf("%s: exit code %d after SIGTERM", p.container.command, code)
	}
}

// checkRights fails the test if the process has a privilege, if its user cannot write to the writable
// mounts, or if even root can write to anything else.
func (p *process) checkRights(t *testing.T) {
	t.Helper()
	uid, _, _ := strings.Cut(p.container.user, ":")
	status := read(t, fmt.Sprintf("/proc/%d/status", p.pid))
	for _, line := range []string{"Uid:\t" + uid + "\t", "CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
		if !strings.Contains(status, line) {
			t.Errorf("%s: /proc/PID/status lacks %q:\n%s", p.container.command, line, status)
		}
	}
	writable := map[string]bool{"/": false}
	user := *p.container
	user.mounts = append(programs(), user.mounts...)
	for _, m := range p.container.mounts {
		writable[m.target] = m.writable
		if !m.writable {
			continue
		}
		if output, err := user.run("/bin/touch", m.target+"/written-by-the-user"); err != nil {
			t.Errorf("%s: the user %s cannot write to %s: %s", p.container.command, user.user, m.target, output)
		}
	}
	for _, target := range slices.Sorted(maps.Keys(writable)) {
		path := fmt.Sprintf("/proc/%d/root%s", p.pid, target)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, "written-by-the-test")
		}
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			_ = file.Close()
		}
		refused := errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ETXTBSY) // ETXTBSY for the running program
		if writable[target] == refused || !refused && err != nil {
			t.Errorf("%s: writing to %s: %v; it is declared writable: %v", p.container.command, target, err, writable[target])
		}
	}
}
