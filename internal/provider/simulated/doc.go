// Package simulated is a simulated CAPTCHA solving service in the process of its client, an http.RoundTripper. If no
// provider has a key and Redis is embedded, the daemon buys from this service. Package simulatedtest adds the faults
// and books that tests need.
//
// The package is the server side of the protocols. It shares package provider/wire with poold's
// own endpoints, and does not import package provider. The service has these paths:
//
//	/in.php      submit       GET query, POST form, multipart or JSON
//	/res.php     action=get, getbalance, reportgood, reportbad, threadsinfo
//	/createTask, /getTaskResult, /getBalance and the paths of reports   POST JSON
//
// When a task is submitted, it gets a lead time from a lognormal distribution, and a random
// decision whether it is unsolvable. The same seed and the same sequence of submissions give the
// same tasks. A task is ready after its due time. Therefore tasks need no goroutine and no timer.
// The service ignores the address of a callback.
//
// # Tokens
//
// The tokens are marked as simulated, and no site accepts them. A token has the form
// SIMULATED.<type>.<task>.<identity>.<filler>. The solution of a GeeTest has this form in one of
// its named values. The text of a picture has 0 in place of the task, so that equal pictures have
// equal texts.
//
// The package solves no CAPTCHA. It checks only the size and the format of pictures. It keeps all
// state in memory, and each task only for Options.Keep after its due time.
package simulated
