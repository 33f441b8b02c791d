-- +goose Up

-- Ended orders and hand-outs.
create table if not exists captcha_history (
	kind    text not null,             -- order or handout
	id      text collate "C" not null, -- in the order of its bytes, whatever the database's language
	at      timestamptz not null,      -- when the order ended, or of the hand-out
	target  text not null,             -- "/solve": none
	owner   text not null,
	sitekey text not null,             -- of an order, as task and status
	task    text not null,             -- the provider's id
	status  text not null,             -- solved or error
	key     text not null,             -- of a hand-out: name of the caller's key; "-": none
	content json not null,             -- all fields, as in the API
	primary key (kind, id)
);

-- Newest first, of all targets and of one.
create index if not exists captcha_history_site on captcha_history (sitekey, at, id) where kind = 'order';
create index if not exists captcha_history_site_target on captcha_history (sitekey, target, at, id) where kind = 'order';
create index if not exists captcha_history_status on captcha_history (status, at, id) where kind = 'order';
create index if not exists captcha_history_status_target on captcha_history (status, target, at, id) where kind = 'order';
create index if not exists captcha_history_key on captcha_history (key, at, id) where kind = 'handout';
create index if not exists captcha_history_key_target on captcha_history (key, target, at, id) where kind = 'handout';
create index if not exists captcha_history_task on captcha_history (task, at, id) where task <> '';
-- The oldest, which expire.
create index if not exists captcha_history_at on captcha_history (kind, at);

-- What the rows of a UTC day come to.
create table if not exists captcha_days (
	day    date not null,
	scope  text not null,   -- type, target or key: what name is the name of
	name   text not null,
	owner  text not null,   -- of a target
	figure text not null,   -- solved, failed, …; spent is in billionths of the currency
	n      bigint not null,
	primary key (day, scope, name, owner, figure)
);
