package daemontest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/httpapi/openapi/openapitest"
	"poold/internal/testkit"
)

// described checks the responses of all poolds against openapi.yaml.
var described openapitest.Watch

// Checking returns a transport that works like next and checks the responses of all poolds.
func Checking(next http.RoundTripper) http.RoundTripper { return described.Transport(next) }

// Settings are those of Start.
type Settings struct {
	Binary string       // the program; "" = the poold that Binary builds
	Config string       // the text of pools.yaml; Start writes it to a temporary folder
	File   string       // the path of an existing pools.yaml instead of Config
	Key    string       // the key that requests send; "" = none
	Env    []string     // additional variables of the environment, which otherwise has only PATH
	Args   []string     // additional arguments of `poold serve`
	Client *http.Client // nil = a client that checks the responses against openapi.yaml
	Wrap   []string     // a program with arguments that runs poold, such as setpriv
	TLS    bool         // whether poold serves https
	Listen string       // host:port; "" = a free port of 127.0.0.1
}

// Process is a running poold.
type Process struct {
	URL    string
	Config string // path of pools.yaml
	Output *testkit.Log
	Ended  <-chan error // receives the error of the process when it has ended

	t       testing.TB
	command *exec.Cmd
	key     string
	client  *http.Client
}

// Start runs poold as a process until the test ends, and returns when /readyz answers 200.
func Start(t testing.TB, o Settings) *Process {
	t.Helper()
	if o.Listen == "" {
		o.Listen = fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	}
	if o.File == "" {
		o.File = filepath.Join(t.TempDir(), "pools.yaml")
		testkit.NoError(t, os.WriteFile(o.File, []byte(o.Config), 0o600))
	}
	if o.Client == nil {
		o.Client = &http.Client{Transport: Checking(http.DefaultTransport)}
	}
	if o.Binary == "" {
		o.Binary = Binary(t)
	}
	line := append(append(o.Wrap, o.Binary, "serve", "--config", o.File, "--listen", o.Listen), o.Args...)
	p := &Process{URL: "http://" + o.Listen, Config: o.File, t: t, key: o.Key, client: o.Client}
	p.command = exec.Command(line[0], line[1:]...) //nolint:gosec,noctx // G204: the tests choose the program
	if o.TLS {
		p.URL = "https://" + o.Listen
	}
	described.Add(t, p.URL)
	p.command.Env = append([]string{"PATH=" + os.Getenv("PATH")}, o.Env...)
	p.command.Dir = t.TempDir()
	p.Output, p.Ended = testkit.Daemon(t, p.command, func() bool {
		response, err := p.client.Get(p.URL + "/readyz") //nolint:noctx // a request to a process of this test
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return p
}

// Signal sends a signal to poold.
func (p *Process) Signal(which syscall.Signal) {
	p.t.Helper()
	testkit.NoError(p.t, p.command.Process.Signal(which))
}

// Stop sends SIGTERM, waits for the end of the process, and returns its error.
func (p *Process) Stop() error {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	return testkit.Receive(p.t, 20*time.Second, "the end of poold after SIGTERM", p.Ended)
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.command.Process.Pid }

// Write replaces pools.yaml in one step.
func (p *Process) Write(text string) {
	p.t.Helper()
	ReplaceFile(p.t, p.Config, text)
}

// ReplaceFile replaces a file in one step, by a rename.
func ReplaceFile(t testing.TB, path, text string) {
	t.Helper()
	testkit.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	testkit.NoError(t, os.Rename(path+".new", path))
}

// Call sends a request with the key of the Settings, and returns the status code and the body of the
// response. A body is sent as JSON. Call fails the test only if poold does not answer.
func (p *Process) Call(method, path, body string) (status int, answer string) {
	p.t.Helper()
	status, answer, err := p.Try(method, path, body)
	testkit.NoError(p.t, err)
	return status, answer
}

// Try does the same as Call, but returns an error if poold does not answer.
func (p *Process) Try(method, path, body string) (status int, answer string, err error) {
	request, err := http.NewRequest(method, p.URL+path, strings.NewReader(body)) //nolint:noctx // of this test
	if err != nil {
		return 0, "", err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if p.key != "" {
		request.Header.Set("Authorization", "Bearer "+p.key)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	return response.StatusCode, string(read), err
}
