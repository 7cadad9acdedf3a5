-- Accounts and what is set aside in them. Amounts are whole: billionths of a dollar, requests, tokens.

CREATE TABLE stepfall.store (id bigint NOT NULL);
INSERT INTO stepfall.store (id) SELECT ('x' || substr(md5(random()::text || clock_timestamp()::text), 1, 15))::bit(60)::bigint;

-- A period is named by when it begins, in nanoseconds since the Unix epoch; 0 is the only one of an account without.
CREATE TABLE stepfall.accounts (
	account  text COLLATE "C" NOT NULL,
	period   bigint NOT NULL,
	spent    bigint NOT NULL DEFAULT 0,
	reserved bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (account, period)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

CREATE TABLE stepfall.holds (
	id       bigint NOT NULL,
	account  text COLLATE "C" NOT NULL,
	period   bigint NOT NULL,
	amount   bigint NOT NULL,
	returns  boolean NOT NULL,
	expired  boolean NOT NULL DEFAULT false,
	until_ns bigint NOT NULL,
	PRIMARY KEY (id, account)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);
CREATE INDEX holds_under_way ON stepfall.holds (until_ns) WHERE NOT expired;
CREATE INDEX holds_expired ON stepfall.holds (until_ns) WHERE expired;

CREATE FUNCTION stepfall.now_ns() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint $$;

-- The present period of an account. One that was begun stays the present one when the clock goes back.
CREATE FUNCTION stepfall.present(p_account text, p_length bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	this bigint;
	latest bigint;
BEGIN
	IF p_length <= 0 THEN
		RETURN 0;
	END IF;
	this := stepfall.now_ns() / p_length * p_length;
	SELECT period INTO latest FROM stepfall.accounts WHERE account = p_account ORDER BY period DESC LIMIT 1;
	RETURN greatest(this, latest);
END $$;

-- Whether the accounts are those that the caller began with.
CREATE FUNCTION stepfall.same(p_store bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT 1 FROM stepfall.store WHERE id = p_store) THEN
		RAISE EXCEPTION 'these are not the accounts that the program began with' USING ERRCODE = 'SF001';
	END IF;
END $$;

-- Sets an amount aside if it fits.
CREATE FUNCTION stepfall.hold(p_id bigint, p_account text, p_period bigint, p_amount bigint, p_cap bigint, p_returns boolean, p_ttl bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	UPDATE stepfall.accounts SET reserved = reserved + p_amount
		WHERE account = p_account AND period = p_period AND (p_cap = 0 OR spent + reserved + p_amount <= p_cap);
	IF NOT FOUND THEN
		INSERT INTO stepfall.accounts (account, period) VALUES (p_account, p_period) ON CONFLICT DO NOTHING;
		UPDATE stepfall.accounts SET reserved = reserved + p_amount
			WHERE account = p_account AND period = p_period AND (p_cap = 0 OR spent + reserved + p_amount <= p_cap);
		IF NOT FOUND THEN
			RETURN false;
		END IF;
	END IF;
	INSERT INTO stepfall.holds (id, account, period, amount, returns, until_ns)
		VALUES (p_id, p_account, p_period, p_amount, p_returns, stepfall.now_ns() + p_ttl);
	RETURN true;
END $$;

-- Makes all charges, which come in the order of the accounts' names, or none; refused is the number of the one that does not fit.
CREATE FUNCTION stepfall.reserve(p_store bigint, p_id bigint, p_accounts text[], p_amounts bigint[], p_caps bigint[], p_periods bigint[],
	p_returns boolean[], p_ttl bigint, OUT refused bigint, OUT remains bigint, OUT until_ns bigint) LANGUAGE plpgsql AS $$
DECLARE
	this bigint;
BEGIN
	PERFORM stepfall.same(p_store);
	refused := 0; remains := 0; until_ns := 0;
	IF EXISTS (SELECT 1 FROM stepfall.holds h WHERE h.id = p_id) THEN
		RETURN;
	END IF;
	FOR i IN 1 .. coalesce(array_length(p_accounts, 1), 0) LOOP
		this := stepfall.present(p_accounts[i], p_periods[i]);
		IF NOT stepfall.hold(p_id, p_accounts[i], this, p_amounts[i], p_caps[i], p_returns[i], p_ttl) THEN
			refused := i;
			until_ns := this + p_periods[i];
			SELECT p_caps[i] - a.spent - a.reserved INTO remains FROM stepfall.accounts a WHERE a.account = p_accounts[i] AND a.period = this;
			PERFORM stepfall.settle(p_id, '{}', '{}');
			RETURN;
		END IF;
	END LOOP;
END $$;

-- Sets aside a part of what is left: p_amount, or what is left divided by p_share where that is less, at least p_least.
CREATE FUNCTION stepfall.lease(p_store bigint, p_id bigint, p_account text, p_amount bigint, p_least bigint, p_cap bigint, p_period bigint,
	p_share bigint, p_ttl bigint, OUT refused bigint, OUT remains bigint, OUT until_ns bigint, OUT granted bigint, OUT now_ns bigint) LANGUAGE plpgsql AS $$
DECLARE
	this bigint;
BEGIN
	PERFORM stepfall.same(p_store);
	this := stepfall.present(p_account, p_period);
	refused := 0; remains := 0; granted := p_amount; until_ns := this + p_period; now_ns := stepfall.now_ns();
	SELECT h.amount INTO granted FROM stepfall.holds h WHERE h.id = p_id;
	IF FOUND THEN
		RETURN;
	END IF;
	granted := p_amount;
	IF p_cap > 0 THEN
		SELECT p_cap - a.spent - a.reserved INTO remains FROM stepfall.accounts a WHERE a.account = p_account AND a.period = this FOR UPDATE;
		remains := coalesce(remains, p_cap);
		granted := greatest(p_least, least(p_amount, remains / p_share));
	END IF;
	IF NOT stepfall.hold(p_id, p_account, this, granted, p_cap, false, p_ttl) THEN
		refused := 1;
		granted := 0;
	END IF;
END $$;

-- Books what was spent in place of what was set aside; again, it changes nothing.
CREATE FUNCTION stepfall.settle(p_id bigint, p_accounts text[], p_spent bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	h record;
	more bigint;
BEGIN
	FOR h IN WITH gone AS (DELETE FROM stepfall.holds WHERE id = p_id RETURNING *) SELECT * FROM gone ORDER BY account LOOP
		more := coalesce(p_spent[array_position(p_accounts, h.account)], 0);
		IF NOT h.expired THEN
			UPDATE stepfall.accounts SET spent = spent + more, reserved = reserved - h.amount WHERE account = h.account AND period = h.period;
		ELSIF h.returns THEN
			UPDATE stepfall.accounts SET spent = spent + more WHERE account = h.account AND period = h.period;
		ELSE
			UPDATE stepfall.accounts SET spent = spent + more - h.amount WHERE account = h.account AND period = h.period;
		END IF;
	END LOOP;
	-- When the server crashes, the worst case stands: that need not wait for the disk.
	PERFORM set_config('synchronous_commit', 'off', true);
END $$;

CREATE FUNCTION stepfall.extend(p_ids bigint[], p_ttl bigint) RETURNS void LANGUAGE sql AS $$
	UPDATE stepfall.holds SET until_ns = stepfall.now_ns() + p_ttl WHERE id = ANY (p_ids) AND NOT expired
$$;

-- Counts reservations as spent, or as given back, whose time is over, and says whether there may be more.
CREATE FUNCTION stepfall.expire() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	a record;
	n bigint := 0;
BEGIN
	FOR a IN
		WITH over AS (
			SELECT id, account FROM stepfall.holds WHERE NOT expired AND until_ns < stepfall.now_ns() ORDER BY until_ns LIMIT 500 FOR UPDATE SKIP LOCKED
		), marked AS (
			UPDATE stepfall.holds h SET expired = true FROM over WHERE h.id = over.id AND h.account = over.account RETURNING h.*
		)
		SELECT account, period, sum(amount)::bigint AS amount, coalesce(sum(amount) FILTER (WHERE NOT returns), 0)::bigint AS spends, count(*) AS n
			FROM marked GROUP BY account, period ORDER BY account, period
	LOOP
		UPDATE stepfall.accounts SET reserved = reserved - a.amount, spent = spent + a.spends WHERE account = a.account AND period = a.period;
		n := n + a.n;
	END LOOP;
	-- What nobody settled in a quarter of a year nobody will; nor are periods of that age asked for.
	DELETE FROM stepfall.holds WHERE expired AND until_ns < stepfall.now_ns() - 7776000000000000;
	RETURN n >= 500;
END $$;
