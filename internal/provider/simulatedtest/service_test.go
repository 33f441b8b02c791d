package simulatedtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/provider/simulated"
	"poold/internal/provider/wire"
	"poold/internal/testkit"
)

func TestThreadCap(t *testing.T) {
	const code = "ERROR_NO_SLOT_AVAILABLE"
	synctest.Test(t, func(t *testing.T) {
		s := New(optionsWith(func(o *Setup) { o.Threads = 2 }))
		buy(t, s)
		time.Sleep(time.Second)
		buy(t, s)
		testkit.Equal(t, "in_php", get(t, s, recaptchaQuery()), code)
		v := post(t, s, "/createTask", createBody(`"type":"RecaptchaV2TaskProxyless"`))
		testkit.Equal(t, "tasks", v["errorCode"], any(code))

		// A thread becomes free at the due time of its task, even if the task is not polled.
		time.Sleep(constantOptions.Median - time.Second)
		buy(t, s)
		testkit.Equal(t, "one more", get(t, s, recaptchaQuery()), code)
		totals := s.Totals()
		testkit.Equal(t, "peak", totals.PeakInFlight, 2)
		testkit.Equal(t, "in flight", totals.InFlight, 2)
		testkit.Equal(t, "submitted", totals.Submitted, 3)
		testkit.Equal(t, "solved", totals.Solved, 1)
		testkit.Equal(t, "refused", totals.Refused, 3)
	})
}

func TestLeadTimesFollowTheDistribution(t *testing.T) {
	s := New(Setup{Seed: 3, FailShare: 0.07})
	const n = 4000
	for range n {
		buy(t, s)
	}
	var leads []time.Duration
	var spread float64
	failed := 0
	for _, sale := range s.Sold() {
		lead := sale.Due.Sub(sale.At)
		if lead < usualMedian/3 || lead > 20*usualMedian/3 {
			t.Fatalf("a lead time of %v", lead)
		}
		leads = append(leads, lead)
		d := math.Log(float64(lead) / float64(usualMedian))
		spread += d * d
		if sale.Failed {
			failed++
		}
	}
	slices.Sort(leads)
	if m := leads[n/2]; m < 17*time.Second || m > 19*time.Second {
		t.Errorf("median %v", m)
	}
	if sigma := math.Sqrt(spread / n); sigma < 0.42 || sigma > 0.48 {
		t.Errorf("sigma %v", sigma)
	}
	if failed < n*5/100 || failed > n*9/100 {
		t.Errorf("%d of %d failed", failed, n)
	}
}

// The ledger contains exact numbers and no secret, both in the process and over HTTP.
func TestLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(optionsWith(func(o *Setup) { o.LedgerHTTP = true }))
		proxy := []string{"proxy", "user:hunter2@192.0.2.1:80", "proxytype", "HTTP"}
		id := buy(t, s, proxy...)
		poll(t, s, id)
		time.Sleep(time.Minute)
		poll(t, s, id)
		poll(t, s, id)
		image := "GIF89a" + strings.Repeat("picture-canary-4711-", 10)
		encoded := base64.StdEncoding.EncodeToString([]byte(image))
		get(t, s, "/in.php?key=k&method=base64&body="+url.QueryEscape(encoded))
		get(t, s, "/res.php?key=k&action=getbalance")

		text := get(t, s, "/ledger")
		var l Ledger
		testkit.NoError(t, json.Unmarshal([]byte(text), &l))
		sold := s.Sold()
		for _, secret := range []string{"hunter2", sold[0].Token, "canary", encoded[20:60]} {
			if strings.Contains(text, secret) {
				t.Errorf("the ledger shows %s", secret)
			}
		}
		sale := l.Sales[0]
		testkit.Equal(t, "task", sale.Task, id)
		testkit.Equal(t, "identity", sale.ID, sold[0].Identity.ID())
		testkit.Equal(t, "lead", sale.Due.Sub(sale.At), constantOptions.Median)
		testkit.Equal(t, "polls", sale.Polls, 3)
		testkit.Equal(t, "collected", sale.Collected, 2)
		testkit.Equal(t, "hash", sale.TokenSHA256, sold[0].TokenSHA256)
		testkit.Equal(t, "uncollected", l.Sales[1].Collected, 0)
		testkit.Equal(t, "the picture's hash", len(l.Sales[1].Identity.Picture.SHA256), 64)

		totals := fmt.Sprint(l.Totals)
		testkit.Equal(t, "over HTTP as in the process", totals, fmt.Sprint(s.Totals()))
		testkit.Equal(t, "totals", totals, fmt.Sprint(Tally{
			Submitted: 2, Solved: 1, Collected: 1, Repeated: 1, InFlight: 1, PeakInFlight: 1,
			ByAction: map[wire.Action]int{Submit: 2, Poll: 3, "balance": 1},
		}))
	})
}

// A service forgets a task some time after its due time.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated.New(simulated.Options{Median: 10 * time.Second, Keep: 5 * time.Minute})
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(s.Answer(r).Body)
		})
		for range 100 {
			for range 10 {
				get(t, handler, recaptchaQuery())
			}
			time.Sleep(31 * time.Second)
		}
		if n := len(s.Tasks()); n < 100 || n > 110 { // number of submits in five minutes and ten seconds
			t.Errorf("%d tasks are known", n)
		}
		oldest := strconv.FormatInt(s.Tasks()[0].Number, 10)
		time.Sleep(5 * time.Minute)
		testkit.Equal(t, "too old", get(t, handler, "/res.php?key=k&action=get&id="+oldest), "ERROR_WRONG_CAPTCHA_ID")
	})
}
