-- +goose Up

-- How one order ended, by the order's name.
create table if not exists captcha_solves (
	id        text collate "C" primary key, -- in the order of its bytes, whatever the database's language
	identity  text not null,
	target    text not null,                -- "/solve": none
	owner     text not null,
	type      text not null,
	sitekey   text not null,
	pageurl   text not null,
	provider  text not null,
	task      text not null,                -- the provider's id
	how       text not null,                -- solved, discarded, failed, refused or lost
	status    text not null,                -- solved or error
	code      text not null,                -- the provider's error code
	placed    timestamptz not null,
	submitted timestamptz,                  -- null: it did not come to that
	ended     timestamptz not null,
	solved    timestamptz,                  -- the token is no older; null: there is none
	polls     bigint not null,
	callback  boolean not null,
	price     bigint not null,              -- in billionths of the currency; -1: unknown
	choice    text not null                 -- how the provider was chosen; '': unknown
);

-- Newest first, of all targets and of one.
create index if not exists captcha_solves_site on captcha_solves (sitekey, ended, id);
create index if not exists captcha_solves_site_target on captcha_solves (sitekey, target, ended, id);
create index if not exists captcha_solves_status on captcha_solves (status, ended, id);
create index if not exists captcha_solves_status_target on captcha_solves (status, target, ended, id);

-- A record by the provider's id of its task, which may be of any length.
create index if not exists captcha_solves_task on captcha_solves (left(task, 100), ended, id) where task <> '';

-- What the orders that ended on a UTC day come to.
create table if not exists captcha_figures (
	day        date not null,
	target     text not null,
	owner      text not null,
	type       text not null,
	solved     bigint not null,
	discarded  bigint not null,
	failed     bigint not null,
	refused    bigint not null,
	lost       bigint not null,
	elapsed_ms bigint not null, -- of those solved or discarded
	spent      bigint not null, -- in billionths of the currency
	unpriced   bigint not null, -- orders without a known price, which are not in spent
	primary key (day, target, owner, type)
);
