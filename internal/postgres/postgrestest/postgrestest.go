// Package postgrestest starts a real PostgreSQL server for tests, on a free port, with its files in a
// new folder. PostgreSQL refuses to run as root. If root runs the tests, the server runs as the user
// postgres. Only tests import this package.
package postgrestest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/testkit"
)

// Password is the superuser's password on every server. It is long and rare, so that a test can search
// logs and errors for it.
const Password = "canary-7f3e1c52"

const (
	superuser = "postgrestest"
	patience  = 2 * time.Minute
)

// Cluster is a PostgreSQL server. It stops when the test ends.
type Cluster struct {
	Port int

	bin, dir string
	as       *syscall.SysProcAttr
	output   testkit.Log
	process  *exec.Cmd
	frozen   []int // IDs of the processes that Freeze stopped
}

// Start creates a server and starts it.
func Start(t testing.TB) *Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "postgrestest") // the server may run as another user, which cannot access t.TempDir
	testkit.NoError(t, err)
	s := &Cluster{bin: programs(t), dir: dir, Port: testkit.FreePort(t)}
	t.Cleanup(func() {
		s.Stop(t) // kill -9 would leave the shared memory of the processes behind
		_ = os.RemoveAll(s.dir)
	})
	if s.as = otherUser(t); s.as != nil {
		testkit.NoError(t, os.Chown(s.dir, int(s.as.Credential.Uid), int(s.as.Credential.Gid)))
	}
	password := filepath.Join(s.dir, "password")
	testkit.NoError(t, os.WriteFile(password, []byte(Password), 0o644)) // in a folder that only the user can open
	s.run(t, "initdb", "--username", superuser, "--auth", "scram-sha-256", "--pwfile", password, "--pgdata", s.data(),
		"--no-sync", "--encoding", "UTF8", "--locale", "C")
	s.Up(t)
	return s
}

func (s *Cluster) data() string { return filepath.Join(s.dir, "data") }

// Database creates a new database on the server and returns its address, which contains Password.
func (s *Cluster) Database(t testing.TB) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:12])
	s.SQL(t, "postgres", "create database "+name)
	return s.Address(name)
}

// Address returns the address of a database on the server, which contains Password.
func (s *Cluster) Address(database string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s", superuser, Password, s.Port, database)
}

// SQL runs SQL statements in a database and returns their output: one line for each row, with | between the columns.
// The argument database is the name or the address of the database.
func (s *Cluster) SQL(t testing.TB, database, statements string) string {
	t.Helper()
	database = database[strings.LastIndex(database, "/")+1:]
	return s.run(t, "psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1",
		"--dbname", s.Address(database), "--command", statements)
}

// Up starts the server if the server is down, and waits until the server accepts connections. After a kill, the first
// starts may fail, because the shared memory of the old processes is still in use.
func (s *Cluster) Up(t testing.TB) {
	t.Helper()
	if s.process != nil {
		return
	}
	defer func() {
		if t.Failed() {
			t.Logf("postgres printed:\n%s", s.output.String())
		}
	}()
	exited := s.launch(t)
	testkit.Within(t, patience, "postgres to start", func() bool {
		select {
		case <-exited:
			exited = s.launch(t)
		default:
		}
		return exec.Command(filepath.Join(s.bin, "pg_isready"), "--quiet", "--dbname", s.Address("postgres")).Run() == nil
	})
}

// launch starts the server process. The channel is closed when it has ended.
func (s *Cluster) launch(t testing.TB) <-chan struct{} {
	t.Helper()
	process := exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.Port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "jit=off",
		"-c", "max_connections=50")
	process.SysProcAttr, process.Dir = s.as, s.dir
	process.Stdout, process.Stderr = &s.output, &s.output
	testkit.NoError(t, process.Start())
	s.process = process
	exited := make(chan struct{})
	go func() { _ = process.Wait(); close(exited) }()
	return exited
}

// Stop stops the server immediately, like pg_ctl stop -m immediate. The server's data stays.
func (s *Cluster) Stop(t testing.TB) { s.end(t, syscall.SIGQUIT) }

// Kill kills the main process of the server with SIGKILL. Its other processes then end by themselves.
func (s *Cluster) Kill(t testing.TB) { s.end(t, syscall.SIGKILL) }

// end sends a signal to the main process and waits until this process has ended. The
// server's other processes end too.
func (s *Cluster) end(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if s.process == nil {
		return
	}
	pid := s.process.Process.Pid
	_ = syscall.Kill(pid, signal)
	s.Thaw()
	testkit.Within(t, patience, "postgres to end", func() bool { return syscall.Kill(pid, 0) != nil })
	s.process = nil
}

// Freeze stops all processes of the server with SIGSTOP. A frozen server accepts connections but does not respond.
// Thaw, Stop and Kill end the freeze.
func (s *Cluster) Freeze() {
	main := s.process.Process.Pid
	_ = syscall.Kill(main, syscall.SIGSTOP) // from now on the main process starts no other process
	for state, _ := stat(main); state != "T" && state != ""; state, _ = stat(main) {
		time.Sleep(time.Millisecond)
	}
	s.frozen = []int{main}
	for children := s.children(); len(children) > 0; children = s.children() {
		for _, child := range children {
			_ = syscall.Kill(child, syscall.SIGSTOP)
		}
		s.frozen = append(s.frozen, children...)
	}
}

// Thaw resumes all processes that Freeze stopped.
func (s *Cluster) Thaw() {
	for _, pid := range s.frozen {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	s.frozen = nil
}

// children returns the children of the main process that are not frozen. It reads the state of every
// process on the machine. The kernel's own list of children may be incomplete while processes end.
func (s *Cluster) children() (found []int) {
	all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, folder := range all {
		pid, _ := strconv.Atoi(filepath.Base(folder))
		if _, parent := stat(pid); parent == s.process.Process.Pid && !slices.Contains(s.frozen, pid) {
			found = append(found, pid)
		}
	}
	return found
}

// stat returns the state of a process, such as "T" for stopped, and the id of its parent. It returns
// "" and 0 if the process has ended.
func stat(pid int) (state string, parent int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // an error means that the process has ended
	// The name in brackets may contain spaces and brackets.
	fields := append(strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])), "", "")
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent
}

// run runs one of PostgreSQL's programs as the server's user and returns its output. The test fails if the program
// fails, for example because the server does not respond.
func (s *Cluster) run(t testing.TB, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	command.SysProcAttr, command.Dir = s.as, s.dir
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, output)
	}
	return strings.TrimSpace(string(output))
}

// programs returns the folder with PostgreSQL's programs: the folder on the PATH, or else the folder of
// the newest installed version.
func programs(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil { // the other programs are in the same folder
			return filepath.Dir(path)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		t.Fatal("PostgreSQL's server is not on this machine (scripts/test installs it, or apt-get install postgresql)")
	}
	return found[len(found)-1]
}

// otherUser returns the attributes that make a child process run as a user other than root. It returns
// nil if this process does not run as root.
func otherUser(t testing.TB) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		t.Fatalf("PostgreSQL refuses to run as root, and there is no other user: %v", err)
	}
	uid, _ := strconv.Atoi(found.Uid) // numbers, on every system with root
	gid, _ := strconv.Atoi(found.Gid)
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}
