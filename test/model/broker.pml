/* Kafka, and the network between: a request lands at any time or never, once more if it is doubled, and its answer may
 * be lost (the sender's time-out in instance.pml). Kafka keeps what it has appended. */

/* The batch of net[k] goes to the end of the log. */
inline append() {
	if
	:: net[k].takeover ->
		log[end] = TAKEOVER(net[k].from);
		printf("offset %d: a takeover of %c\n", passed + end, name(net[k].from))
	:: else ->
		r = 0;
		do
		:: r < net[k].n ->
			if
			:: counts(net[k].base + r, end + r) ->
				m = net[k].first ^ r; s = net[k].serial + r;
				printf("offset %d: message %c of %c counts, serial %d\n", passed + end + r, letter(m), name(net[k].from), s);
				fold(end + r);
				assert(folded(m) == 0);                     /* TWO RECORDS OF ONE MESSAGE COUNT */
				assert(s == (foldX > 0) + (foldY > 0) + 1); /* SERIALS ARE NOT DENSE */
				assert(!(net[k].no & (1 << r)));            /* "NOT STORED", BUT IT COUNTS LATER */
				log[end + r] = MESSAGE(net[k].from, m, s)
			:: else ->
				log[end + r] = VOID;
				printf("offset %d: a record that names another offset: void\n", passed + end + r)
			fi;
			r++
		:: else -> break
		od
	fi;
	net[k].landed = end;
	end = end + net[k].n
}

#define unused(j) (net[j].state == FREE)
#if NET == 2
#define roomInNet (unused(0) || unused(1))
#elif NET == 3
#define roomInNet (unused(0) || unused(1) || unused(2))
#else
#define roomInNet (unused(0) || unused(1) || unused(2) || unused(3))
#endif

inline findFree() { /* f: a free place */
	f = 0;
	do
	:: net[f].state != FREE -> f++
	:: else -> break
	od
}

/* A late copy of net[k_], for which nobody waits. */
inline copy(to, k_) {
	net[to].state = FLYING; net[to].takeover = net[k_].takeover; net[to].from = net[k_].from; net[to].n = net[k_].n;
	net[to].first = net[k_].first; net[to].serial = net[k_].serial; net[to].base = net[k_].base; net[to].no = net[k_].no
}

/* Nobody waits for net[k_] any more. What has not landed yet may still do so. */
inline abandon(k_) {
	if
	:: net[k_].state == LANDED -> free(k_)
	:: else -> net[k_].waits = NOBODY; net[k_].unclear = 0
	fi
}

inline doubled() { printf("the network doubles a request of %c\n", name(net[k].from)) }

#define canLand(j) (net[j].state != FREE && end + net[j].n <= LOG)
#define canBeLost(j) (net[j].state == FLYING && net[j].waits == NOBODY)
#define canMove(j) (canLand(j) || canBeLost(j))

/* k: any request of which the claim is true. */
#if NET == 2
#define pick(claim) :: claim(0) -> k = 0 :: claim(1) -> k = 1
#elif NET == 3
#define pick(claim) :: claim(0) -> k = 0 :: claim(1) -> k = 1 :: claim(2) -> k = 2
#else
#define pick(claim) :: claim(0) -> k = 0 :: claim(1) -> k = 1 :: claim(2) -> k = 2 :: claim(3) -> k = 3
#endif

proctype Broker() {
	do
	:: atomic {
		if
		pick(canMove)
		fi;
		if
		:: canLand(k) && net[k].waits == NOBODY -> d_step { append(); free(k) }
		:: canLand(k) && net[k].waits == NOBODY -> d_step { doubled(); append(); net[k].landed = 0 }
		:: canLand(k) && net[k].waits != NOBODY && net[k].state == FLYING -> d_step { append(); net[k].state = LANDED }
		:: canLand(k) && net[k].waits != NOBODY && net[k].state == FLYING && roomInNet -> d_step {
			doubled(); append(); findFree(); copy(f, k); net[k].state = LANDED
		}
		/* Doubled, and its second answer arrives in place of the first. */
		:: canLand(k) && net[k].state == LANDED -> d_step { doubled(); append() }
		/* A late copy is lost. Where somebody waits, the loss shows when he tries again. */
		:: canBeLost(k) -> d_step { free(k) }
		fi;
		d_step { tidy() }
	}
	od
}
