//go:build !race

package deploy_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"poold/internal/httpapi/openapi/openapitest"
	"poold/internal/testkit"
)

// guest is a body for POST /solve with a proxy.
var guest = `{"type":"turnstile","sitekey":"k","pageurl":"https://solve.example.com/a","proxy":"` + proxyOfCaller +
	`","proxy_type":"http","dedup":"identity"}`

var proxyOfCaller = secrets["PROXY_USER"] + ":" + secrets["PROXY_PASSWORD"] + "@proxy.example.com:8080"

// callerTask is a task of the protocol create_task for the target `other`.
const callerTask = `{"type":"RecaptchaV2TaskProxyless","websiteURL":"https://staging.example.com/other",` +
	`"websiteKey":"6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI"}`

// pictureTask is a task with a picture.
var pictureTask = `{"type":"ImageToTextTask","body":"` + secrets["PICTURE"] + `"}`

// request is a request to a route: a query, a body, and the path parameters that differ from other
// routes.
type request struct {
	id    string
	query string
	body  string
}

// clientRoute matches the paths of the protocols of solving services. A refusal has the status 200.
var (
	clientRoute   = regexp.MustCompile(`^/(in\.php|res\.php|createTask|get[A-Z]\w+|report[A-Z]\w+)`)
	clientRefusal = regexp.MustCompile(`^ERROR|"errorId":[1-9]`)
)

// everyRoute sends requests to each route of openapi.yaml: right ones, ones with wrong keys, and ones
// with secrets in wrong places. If `accepted` is true, poold must accept the right requests.
func (c *canaries) everyRoute(accepted bool) {
	requests := c.requests(accepted)
	key, wrong := secrets["CALLER_KEY"], secrets["WRONG_KEY"]
	var all sync.WaitGroup
	limit := make(chan struct{}, 8)
	for _, operation := range openapitest.Poold().Operations() {
		method, template, _ := strings.Cut(operation, " ")
		with := requests[operation]
		if with == (request{}) {
			with = requests[template]
		}
		path := strings.NewReplacer("{target}", "login", "{id}", with.id, "{provider}", "main", "{order}", "o", "{secret}",
			secrets["CALLBACK_SECRET"], "{sitekey}", "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI", "{date}",
			time.Now().UTC().Format(time.DateOnly), "{name}", "all", "{profile}", "goroutine").Replace(template)
		all.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			how := "right"
			if path == "/" { // redirects browsers only
				how = "a browser's"
			}
			status, text := c.ask(how, method, path+with.query, with.body, key)
			if bad := status >= http.StatusBadRequest || clientRoute.MatchString(path) && clientRefusal.MatchString(text); bad &&
				accepted {
				c.Errorf("%s%s %s: %d %.300s", operation, with.query, with.body, status, text)
			}
			if method == http.MethodGet {
				c.ask("a browser's", method, path+with.query, "", key)
			}
			c.ask("a limited", method, path+with.query, strings.ReplaceAll(with.body, key, secrets["LIMITED_KEY"]),
				secrets["LIMITED_KEY"])
			c.ask("a browser's", method, path+strings.ReplaceAll(with.query, key, wrong),
				strings.ReplaceAll(with.body, key, wrong), wrong)
			c.ask("a wrong", method, path+strings.ReplaceAll(with.query, key, wrong), strings.ReplaceAll(with.body, key, wrong),
				wrong)
			nonsense := `{"token":"` + secrets["TOKEN"] + `x","key":"` + wrong + `","clientKey":"` + key + `","proxy":"` +
				proxyOfCaller + `"}`
			c.ask("a nonsensical", method, path+"?wait="+wrong+"&token="+secrets["TOKEN"]+"&key="+key+"&proxy="+proxyOfCaller,
				nonsense, key)
		})
	}
	all.Wait()
	for _, profile := range []string{"cmdline", "goroutine?debug=2", "heap?debug=1", "allocs", "profile?seconds=1",
		"trace?seconds=1"} {
		all.Go(func() { c.ask("right", "GET", "/debug/pprof/"+profile, "", key) })
	}
	all.Wait()
}

// requests returns the request that is right for each route that needs a query, a body or an id, by
// path or by method and path. Without `prepare`, the ids are unknown to poold.
func (c *canaries) requests(prepare bool) map[string]request {
	key := secrets["CALLER_KEY"]
	token, solve, order := "unknown", "unknown", "unknown"
	task := func(string) string { return "77" }
	if prepare {
		token, solve, order, task = c.id("/pool/login/token?wait=20s", ""), c.id("/solve", guest), c.order(), c.task
	}
	const outcome = `{"outcome":"accepted"}`
	auth := `{"clientKey":"` + key + `"`
	submit := "key=" + key + "&method=turnstile&sitekey=k&pageurl=https://solve.example.com/c&proxytype=HTTP&proxy=" +
		proxyOfCaller
	guestTask := `{"type":"TurnstileTask","websiteURL":"https://solve.example.com/b","websiteKey":"k",` +
		`"proxyType":"http","proxyAddress":"proxy.example.com","proxyPort":8080,` +
		`"proxyLogin":"` + secrets["PROXY_USER"] + `","proxyPassword":"` + secrets["PROXY_PASSWORD"] + `"}`
	all := map[string]request{
		"POST /pool/{target}/token/{id}/report": {id: token, body: outcome},
		"/pool/{target}/token":                  {query: "?wait=20s"},
		"POST /solve":                           {body: guest},
		"POST /solve/{id}/report":               {id: solve, body: outcome},
		"POST /pool/{target}/pause":             {body: `{"for":"1s","reason":"a test"}`},
		"POST /status/act":                      {body: "act=pause&of=login&for=1s&reason=a+test"},
		"/history/orders":                       {query: "?status=solved"},
		"/history/usage":                        {query: "?by=key"},
		"/history/order/{id}":                   {id: order},
		"GET /in.php":                           {query: "?" + submit},
		"POST /in.php":                          {body: submit},
		"GET /res.php":                          {query: "?action=get&key=" + key + "&id=" + task(callerTask)},
		"POST /res.php":                         {body: "action=get&key=" + key + "&id=" + task(callerTask)},
		"POST /createTask":                      {body: auth + `,"task":` + guestTask + `}`},
		"POST /getBalance":                      {body: auth + `}`},
		"POST /getTaskResult":                   {body: auth + `,"taskId":` + task(callerTask) + `}`},
	}
	for _, operation := range openapitest.Poold().Operations() {
		if strings.HasPrefix(operation, "POST /report") {
			of := callerTask
			switch {
			case strings.Contains(operation, "Image"):
				of = pictureTask
			case strings.Contains(operation, "Hcaptcha"):
				of = `{"type":"HCaptchaTaskProxyless","websiteURL":"https://solve.example.com/h","websiteKey":"k"}`
			}
			all[operation] = request{body: auth + `,"taskId":` + task(of) + `}`}
		}
	}
	return all
}

// id takes a token and returns its id.
func (c *canaries) id(path, body string) string {
	status, text := c.ask("right", "POST", path, body, secrets["CALLER_KEY"])
	var token struct{ ID string }
	if err := json.Unmarshal([]byte(text), &token); err != nil || token.ID == "" {
		c.Fatalf("POST %s: %d %v %s", path, status, err, text)
	}
	return token.ID
}

// task submits a task, waits for its token, and returns its id.
func (c *canaries) task(task string) string {
	auth := `{"clientKey":"` + secrets["CALLER_KEY"] + `",`
	_, text := c.ask("right", "POST", "/createTask", auth+`"task":`+task+`}`, secrets["CALLER_KEY"])
	var created struct{ TaskID json.Number }
	if err := json.Unmarshal([]byte(text), &created); err != nil || created.TaskID == "" {
		c.Fatalf("POST /createTask: %v %s", err, text)
	}
	testkit.Within(c.TB, 20*time.Second, "a token of "+task, func() bool {
		_, text := c.ask("right", "POST", "/getTaskResult", auth+`"taskId":`+string(created.TaskID)+`}`,
			secrets["CALLER_KEY"])
		return strings.Contains(text, `"ready"`)
	})
	return string(created.TaskID)
}

// order returns the id of an order in the history.
func (c *canaries) order() (id string) {
	testkit.Within(c.TB, 20*time.Second, "an order in the history", func() bool {
		_, text := c.ask("right", "GET", "/history/orders?status=solved", "", secrets["CALLER_KEY"])
		var list struct{ Records []struct{ ID string } }
		testkit.NoError(c, json.Unmarshal([]byte(text), &list))
		for _, record := range list.Records {
			id = record.ID
		}
		return id != ""
	})
	return id
}
