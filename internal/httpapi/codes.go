package httpapi

import "net/http"

// code is the stable word of a problem, for programs.
type code string

// The codes; docs/api.md.
const (
	codeBadRequest      code = "bad_request"
	codeUnauthorized    code = "unauthorized"
	codeForbidden       code = "forbidden"
	codeUnknownTarget   code = "unknown_target"
	codeUnknownToken    code = "unknown_token"
	codeUnknownSolve    code = "unknown_solve"
	codeNoHistory       code = "no_history"
	codeNoAudit         code = "no_audit"
	codeNotFound        code = "not_found"
	codeMethod          code = "method_not_allowed"
	codeConflict        code = "idempotency_conflict"
	codeReported        code = "already_reported"
	codePausedInFile    code = "paused_in_file"
	codeWindows         code = "too_many_windows"
	codeTooLarge        code = "too_large"
	codeMisdirected     code = "misdirected_request"
	codeInvalidConfig   code = "invalid_config"
	codeRateLimited     code = "rate_limited"
	codeInternal        code = "internal"
	codePoolEmpty       code = "pool_empty"
	codePaused          code = "paused"
	codeBudget          code = "budget_exhausted"
	codeProviderDown    code = "provider_down"
	codeStoreDown       code = "store_down"
	codeShuttingDown    code = "shutting_down"
	codeStreams         code = "too_many_streams"
	codeOverloaded      code = "overloaded"
	codeSolveRefused    code = "solve_refused"
	codeUnknownProvider code = "unknown_provider"
	codeSolveFailed     code = "solve_failed"
	codeSolveTimeout    code = "solve_timeout"
)

// meanings holds the HTTP status and the title of each code.
var meanings = map[code]struct {
	status int
	title  string
}{
	codeBadRequest:      {http.StatusBadRequest, "The request is malformed"},
	codeUnauthorized:    {http.StatusUnauthorized, "A key is needed"},
	codeForbidden:       {http.StatusForbidden, "This caller may not do that"},
	codeUnknownTarget:   {http.StatusNotFound, "There is no such target"},
	codeUnknownToken:    {http.StatusNotFound, "There is no such token"},
	codeUnknownSolve:    {http.StatusNotFound, "There is no such solve"},
	codeNoHistory:       {http.StatusNotFound, "No history is kept"},
	codeNoAudit:         {http.StatusNotFound, "No audit is kept"},
	codeNotFound:        {http.StatusNotFound, "There is no such page"},
	codeUnknownProvider: {http.StatusNotFound, "There is no such provider"},
	codeMethod:          {http.StatusMethodNotAllowed, "The method is not allowed here"},
	codeConflict:        {http.StatusConflict, "The Idempotency-Key was used for another request"},
	codeReported:        {http.StatusConflict, "The token was reported before"},
	codePausedInFile:    {http.StatusConflict, "The target is paused in the configuration file"},
	codeWindows:         {http.StatusConflict, "The target has too many warm windows"},
	codeTooLarge:        {http.StatusRequestEntityTooLarge, "The body is too large"},
	codeMisdirected:     {http.StatusMisdirectedRequest, "The Host is not this machine"},
	codeInvalidConfig:   {http.StatusUnprocessableEntity, "The configuration file is not valid"},
	codeRateLimited:     {http.StatusTooManyRequests, "Too many requests"},
	codePoolEmpty:       {http.StatusServiceUnavailable, "No token is ready"},
	codePaused:          {http.StatusServiceUnavailable, "No token is ready and buying is paused"},
	codeBudget:          {http.StatusServiceUnavailable, "No token is ready and the budget is used up"},
	codeProviderDown:    {http.StatusServiceUnavailable, "No token is ready and no provider can be asked"},
	codeStoreDown:       {http.StatusServiceUnavailable, "The store cannot be used"},
	codeShuttingDown:    {http.StatusServiceUnavailable, "The daemon is stopping"},
	codeStreams:         {http.StatusServiceUnavailable, "Too many streams are open"},
	codeOverloaded:      {http.StatusServiceUnavailable, "Too many large bodies wait"},
	codeSolveRefused:    {http.StatusUnprocessableEntity, "The solving service refuses this"},
	codeSolveFailed:     {http.StatusBadGateway, "The solving service brought no token"},
	codeSolveTimeout:    {http.StatusGatewayTimeout, "No token came in time"},
	codeInternal:        {http.StatusInternalServerError, "Something went wrong inside poold"},
}
