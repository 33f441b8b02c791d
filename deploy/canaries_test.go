//go:build !race

package deploy_test

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/postgres/postgrestest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// secrets are the values that poold must not show, by their names in canaryConfig. The simulated
// service marks each of its tokens with SIMULATED.
var secrets = map[string]string{
	"PROVIDER_KEY": "canary-provider-4f1d", "REFUSED_KEY": "canary-refused-82ce",
	"UNREACHABLE_KEY": "canary-unreachable-19ab", "CALLER_KEY": "canary-caller-key-63d0",
	"LIMITED_KEY": "canary-limited-key-a7f2", "WRONG_KEY": "canary-wrong-key-05be",
	"CALLBACK_SECRET": "canary-callback-secret-b3c9", "REDIS_PASSWORD": "canary-redis-password-d41e",
	"PROXY_USER": "canary-proxy-user-77c1", "PROXY_PASSWORD": "canary-proxy-password-e8a4",
	"DATABASE_PASSWORD": postgrestest.Password, "TOKEN": "SIMULATED.",
	"PICTURE": "R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs=",
}

// canaryConfig is a pools.yaml whose first provider does not listen, and whose second one refuses the
// key. It needs the address of Redis, of the provider that is down, of the service (twice), of poold
// and of PostgreSQL (twice), and the folder of the dead letters.
//
//go:embed testdata/canaries.yaml
var canaryConfig string

// canaries collects everything that a poold with secrets shows.
type canaries struct {
	testing.TB
	*daemontest.Process
	check func(args ...string) // runs `poold check` with the secrets in its environment

	mu    sync.Mutex
	shown map[string][]string // by the source
}

// TestSecretsAreNotShown uses each route rightly and wrongly, before and during faults, and looks for
// secrets in everything that poold shows.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	database := postgrestest.Start(t)
	address := database.Database(t)
	redis, process := redistest.Process(t, "--requirepass", secrets["REDIS_PASSWORD"])
	service := daemontest.Provider(t,
		simulatedtest.Setup{Key: secrets["PROVIDER_KEY"], Median: time.Second, CallbackShare: 0.5, LedgerHTTP: true})
	config := fmt.Sprintf(canaryConfig, redis, redistest.FreeAddress(t), service, service, "%[1]s", address, address,
		t.TempDir())
	c := startWithSecrets(t, config)
	c.status(`"name":"refused","state":"down"`, `"fresh":15`)
	c.everyRoute(true)

	setFaults(t, service, simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Code,
		Code: "ERROR_WRONG_USER_KEY"})
	c.flushAndSolve()
	c.status("main refuses the key (ERROR_WRONG_USER_KEY)")
	c.check("--live")
	for _, kind := range []simulatedtest.Symptom{simulatedtest.Drop, simulatedtest.HTML, simulatedtest.Redirect,
		simulatedtest.Types, simulatedtest.Hang} {
		setFaults(t, service)
		c.ask("right", "POST", "/providers/main/probe", "", secrets["CALLER_KEY"])
		setFaults(t, service, simulatedtest.Fault{Kind: kind, Share: 0.7})
		c.flushAndSolve()
	}
	setFaults(t, service)
	c.ask("right", "POST", "/providers/main/probe", "", secrets["CALLER_KEY"])
	c.brokenFiles()

	database.Stop(t)
	c.everyRoute(false)
	c.ask("right", "POST", "/pool/login/resume", "", secrets["CALLER_KEY"])
	testkit.Within(t, 20*time.Second, "orders in flight", func() bool {
		c.ask("right", "DELETE", "/pool/login/tokens", "", secrets["CALLER_KEY"])
		return ledger(t, service).Totals.InFlight >= 10
	})
	testkit.NoError(t, process.Kill())
	testkit.Within(t, 20*time.Second, "dead letters", func() bool {
		_, text := c.ask("right", "GET", "/dead-letters", "", secrets["CALLER_KEY"])
		return strings.Contains(text, `"task"`)
	})
	c.everyRoute(false)
	c.check("--live")
	c.end()
}

// startWithSecrets starts poold with the secrets in its environment.
func startWithSecrets(t *testing.T, config string) *canaries {
	t.Helper()
	listen := redistest.FreeAddress(t)
	var environment []string
	for name, value := range secrets {
		environment = append(environment, name+"="+value)
	}
	c := &canaries{TB: t, shown: map[string][]string{}}
	c.Process = daemontest.Start(t, daemontest.Settings{
		Config: fmt.Sprintf(config, listen), Listen: listen, Env: environment,
		Args: []string{"--log-level", "debug", "--access-log"},
	})
	c.check = func(args ...string) {
		command := exec.Command(daemontest.Binary(t), append([]string{"check", "--config", c.Config}, args...)...)
		command.Env = environment
		output, _ := command.CombinedOutput() // fails during faults
		c.show("poold check "+strings.Join(args, " "), string(output))
	}
	return c
}

func (c *canaries) show(source, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown[source] = append(c.shown[source], text)
}

// givesTokens matches the paths whose purpose is to give a token to the caller.
var givesTokens = regexp.MustCompile(`^/(pool/[^/]+/token|solve|res\.php|getTaskResult)($|\?)`)

// ask sends a request and shows the response. The argument how says in failures what kind of request
// it is. A key is sent in each way in which poold reads keys.
func (c *canaries) ask(how, method, path, body, key string) (status int, text string) {
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute) // some requests wait 20 s for a token
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, strings.NewReader(body))
	if err != nil {
		c.Error(err)
		return 0, ""
	}
	request.Header.Set("Authorization", "Bearer "+key)
	if strings.HasPrefix(body, "{") {
		request.Header.Set("Content-Type", "application/json")
	} else if body != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if how == "a browser's" {
		request.Header.Set("Accept", "text/html")
		request.SetBasicAuth("", key)
	}
	response, err := http.DefaultTransport.RoundTrip(request) // follows no redirects
	if err != nil {
		c.Errorf("%s %s: %v", method, path, err)
		return 0, ""
	}
	read, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil && ctx.Err() == nil {
		c.Errorf("%s %s: %v", method, path, err)
	}
	text = string(read)
	shown := fmt.Sprint(response.Header) + text
	if givesTokens.MatchString(path) {
		shown = strings.ReplaceAll(shown, secrets["TOKEN"], "a token")
	}
	c.show(how+" "+method+" "+path, shown)
	return response.StatusCode, text
}

// status waits until /status.json has all the given texts.
func (c *canaries) status(texts ...string) {
	c.Helper()
	status := ""
	defer func() {
		if c.Failed() {
			c.Log(status)
		}
	}()
	testkit.Within(c.TB, 30*time.Second, strings.Join(texts, " and "), func() bool {
		_, status = c.ask("right", "GET", "/status.json", "", secrets["CALLER_KEY"])
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(status, text) })
	})
}

// flushAndSolve makes poold buy tokens, of which some requests wait for.
func (c *canaries) flushAndSolve() {
	var all sync.WaitGroup
	c.ask("right", "DELETE", "/pool/login/tokens", "", secrets["CALLER_KEY"])
	for path, body := range map[string]string{"/pool/login/token?wait=1s": "",
		"/solve": strings.Replace(guest, "}", `,"timeout":"1s"}`, 1)} {
		all.Go(func() { c.ask("right", "POST", path, body, secrets["CALLER_KEY"]) })
	}
	all.Wait()
}

// brokenFiles writes files with secrets in a broken line, each with one of testdata/brokenlines.txt.
func (c *canaries) brokenFiles() {
	text := read(c.TB, c.Config)
	values := strings.NewReplacer("SECRET", secrets["WRONG_KEY"], "USER", secrets["PROXY_USER"]+":"+
		secrets["PROXY_PASSWORD"])
	for line := range strings.Lines(read(c.TB, "testdata/brokenlines.txt")) {
		c.Write(text + values.Replace(line))
		if status, answer := c.ask("right", "POST", "/-/reload", "", secrets["CALLER_KEY"]); status < http.StatusBadRequest {
			c.Errorf("a file with the line %s: %d %s", line, status, answer)
		}
		for _, path := range []string{"/status.json", "/events"} {
			c.ask("right", "GET", path, "", secrets["CALLER_KEY"])
		}
		c.check()
	}
}

// end makes poold print its goroutines, and looks for the secrets.
func (c *canaries) end() {
	c.show("the arguments", read(c.TB, fmt.Sprintf("/proc/%d/cmdline", c.PID())))
	c.Signal(syscall.SIGQUIT)
	// the exit status of a process that a signal ends
	_ = testkit.Receive(c.TB, 20*time.Second, "the end after SIGQUIT", c.Ended)
	output := c.Process.Output.String()
	c.show("the log and the trace", output)
	for _, text := range []string{"SIGQUIT", "goroutine ", "level=DEBUG", "msg=request ", "ERROR_WRONG_USER_KEY",
		"provider=unreachable"} {
		if !strings.Contains(output, text) {
			c.Errorf("the log lacks %s", text)
		}
	}
	for source, texts := range c.shown {
		for name, secret := range secrets {
			for _, text := range texts {
				if at := strings.Index(text, secret); at >= 0 {
					c.Errorf("%s shows the secret %s: …%s…", source, name, text[max(0, at-200):min(len(text), at+100)])
				}
			}
		}
	}
}
