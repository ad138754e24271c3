"""Pages of other kinds: reviews, wills, matches, rules, messages, leaflets, interviews. Choices, comparisons, orders in
time, and what is not so. prose.py reads them."""

TEXT = r"""
form review of an inn
part inn=name2 town=place guest=first
open The {inn}, {town}: two nights
open {town}. Inn: The {inn}. Guest: {guest}.
open {guest} on the {inn} in {town}
ask town: Where is the {inn}? | ~ In which town is the inn? | In what town did the guest of the {inn} stay?
ask inn: ~ What is the inn called? | ~ At which inn was it? | What is the inn in {town} called?
frame a=n b=n price=money
say One can have a room with a {a} or one with a {b}. The second is {price} dearer, so I slept beside the {a}.
say A {a} or a {b}, which would I like in my room? "The cheaper one." That was the {a}; I saved {price}.
ask a: What was in the guest's room? | Which room did the guest take: one with what? | What did the guest choose? | Beside what did the guest sleep? | Which is the cheaper one?
ask b: What would have been dearer? | Which did the guest not choose? | What was the other choice? | Rooms with what are dearer?
ask price: How much dearer is a room with a {b}? | How much was saved? | What is the difference in price?
frame dish=dish n=few better=dish
say The {dish} was cold, and I sent it back. The {better}, on the other hand, I would eat for {n} days running.
say Have the {better}! I had it {n} times. Not the {dish}, which came to the table cold.
ask dish: What was cold? | What was sent back? | What did the guest not like? | What should one not order?
ask better: What did the guest like? | What should one order? | What is to be recommended? | What would one eat for days?
ask n: For how many days would the guest eat {better}? | How often did the guest have or want the {better}, in number?
frame when=time noise=ns who=trader why=why
say Quiet? Until {when} there were {noise} under my window. {Who} only shrugged: {why}.
say I slept badly, and from {when} not at all: {noise}. When I complained to {who} I was told this: {why}.
ask noise: What disturbed the guest? | What kept the guest awake? | What was under the window or in the night to be heard?
ask who: To whom did the guest complain? | Who shrugged or explained the noise?
ask why: What was the guest told about the noise? | How was the noise explained? | Why was there noise?
ask when: Until or from when was the guest kept awake? | What hour does the guest name for the noise?
frame longer=noun shorter=noun by=cm
say My bed was shorter than the {longer}, by {by}, yet longer than the {shorter}.
say The {longer} is {by} longer than the bed, and the bed in turn longer than the {shorter}. I am tall.
ask longer: What is longer than the bed? | Than what was the bed shorter?
ask shorter: What is shorter than the bed? | Than what was the bed longer?
ask by: By how much is the {longer} longer than the bed? | How much shorter was the bed than the {longer}?
form last will
part maker=person day=date town=place
open I, {maker} of {town}, declare on {day}:
open Last will of {maker}, {town}, {day}
ask maker: ~ Whose will is it? | Whose will was made in {town}? | Who made a will on {day}?
ask day: When did {maker} make the will? | ~ On what day was the will made?
frame a=n x=first b=n y=first c=n z=titled
say My {a} shall be {x}'s, my {b} {y}'s. {z} gets the {c}, and nothing besides.
say To {x} the {a}; to {y} the {b}; to {z}, who never wrote, the {c}.
say {x} will have my {a} and {z} my {c}. What of the {b}? It goes to {y}.
ask x: Who gets the {a}? | To whom does the {a} go? | Whose shall the {a} be? | Who inherits the {a}?
ask y: Who gets the {b}? | To whom does the {b} go? | Whose shall the {b} be? | Who inherits the {b}?
ask z: Who gets the {c}? | To whom is the {c} left? | Who gets nothing but a {c}? | Who inherits the {c}?
ask a: What does {x} get? | What will {x} have? | What is left to {x}?
ask b: What does {y} get? | What goes to {y}? | What is left to {y}?
ask c: What does {z} get? | What is left to {z}?
frame house=building heir=first cond=cond other=first
say {house} goes to {heir}, unless {cond}; in that case, to {other}.
say If {cond}, {other} inherits {house}. Otherwise {heir} does.
ask heir: Who inherits {house} as a rule? | Who gets {house}, if nothing is in the way? | Who is the first heir of {house}?
ask other: Who inherits {house} if {cond}? | Who gets {house} otherwise, in the special case? | Who is the second heir of {house}?
ask cond: In what case does {other} inherit {house}? | When does {heir} not get {house}? | What must happen for {other} to get {house}?
ask house: What is {other} to get in a special case? | What may {heir} inherit?
frame sum=money for=act years=dur who=who
say {Sum} are put aside to {for}. {who} sees to it, within {years}.
say Within {years} of my death {who} is to {for}, for which there are {sum}.
ask sum: How much is put aside to {for}? | How much money is there to {for}?
ask for: What is {who} to do? | For what are {sum} put aside? | What must be done within {years}?
ask who: Who is to {for}? | Who sees to it that money is used to {for}?
ask years: Within what time must {who} {for}? | How long has {who} to {for}?
frame no=stuff music=name2 where=spot
say At my burial, {where}, let there be no {no}. I want "{music}" to be played instead.
say Play "{music}", bury me {where}, and spare me the {no}.
ask where: Where does {maker} want to be buried? | Where shall the burial be? | ~ Where is the burial?
ask no: What should there not be at the burial? | What does {maker} not want? | What should one spare {maker}?
ask music: What should be played? | What does {maker} want to hear played? | Which music is wanted at the burial?
form report of a match
part one=place two=place
open {one} against {two}: a win for {one}
open {one} wins at {two}
open {two}, beaten at home by {one}
ask one: ~ Who won? | Which place beat {two}? | Who played against {two}?
ask two: ~ Who lost? | Which place was beaten by {one}? | Against whom did {one} play?
frame n=few m=few who=person after=few
say It ended {n} to {m}. {who} made the last point, {after} minutes before the end.
say With {after} minutes left {who} scored for the last time: {n} to {m}.
ask who: Who made the last point? | Who scored last? | Who scored for the last time?
ask after: How many minutes before the end was the last point made? | How many minutes were left then? | How long before the end did {who} score, in minutes?
frame keeper=person why=ailment stand=person number=num
say {keeper} could not play ({why}), so that {stand} kept goal, wearing number {number}.
say In goal: {stand}, number {number}, in place of {keeper}, whom {why} had put to bed.
ask stand: Who kept goal? | Who stood in for {keeper}? | Who took {keeper}'s place? | Who was in goal?
ask keeper: Who could not play? | In whose place was {stand} in goal? | For whom did {stand} stand in?
ask why: Why could {keeper} not play? | What was the matter with {keeper}? | What had put {keeper} to bed?
ask number: What number did {stand} wear? | Which number had the one in goal?
frame first=person then=person last=person sum=money
say First {first} was sent off, then {then}. {last} went of his or her own will, and pays no fine; the others pay {sum}.
say {then} was sent off soon after {first}. A fine of {sum} each! No such fine for {last}, who just left.
ask first: Who was sent off first? | Who was the first to be sent off? | Who went before {then}?
ask then: Who was sent off after {first}? | Who was the second to be sent off? | Who followed {first}?
ask last: Who went without being sent off? | Who pays no fine? | Who just left?
ask sum: How high is the fine? | How much must {first} pay? | What does it cost to be sent off?
frame n=num more=num where=weekday
say {N} people watched, against {more} a week before.
say A week before it had been {more}; this time {n} had come to watch.
ask n: How many people watched? | How many people came this time? | How many had come to watch?
ask more: How many had watched a week before? | How many people came the week before?
form rules of a house
part house=name2
open {house} Library. Rules
open Rules of the {house} Baths
open In {house} Hall the following is asked of guests
ask house: ~ Which house has these rules? | ~ For what house are the rules?
frame n=few things=ns time=dur fine=money
say No more than {n} {things} at a time, and for {time} at the longest. Who is late pays {fine} a day.
say You may have {n} {things} for {time}. After that each day is {fine}.
ask n: How many {things} may one have at a time? | What is the largest number of {things}?
ask time: For how long may one have them? | What is the longest time? | How long may one keep {things}?
ask fine: What does one pay for each late day? | How much is each day after that? | What does it cost to be late?
frame no=ns but=ns where=hall
say {No} must stay outside. {But} are tolerated, but only in {where}.
say We allow {but}, in {where}. We do not allow {no}.
ask no: What must stay outside? | What is not allowed? | What may not be brought in?
ask but: What is tolerated? | What is allowed in {where}? | What may be brought, though not into every room?
ask where: Where are {but} allowed? | In which room are {but} tolerated?
frame cond=cond act=act who=titled bell=few
say If {cond}, do not run: {act} and wait for {who}.
say What to do when {cond}? {Act}. Then wait until {who} comes.
say Should anybody notice that {cond}, he or she should {act}, and tell {who}.
ask act: What should one do if {cond}? | What must be done when {cond}? | What is one to do as soon as {cond}?
ask who: For whom should one wait if {cond}? | Who comes, or must be told, when {cond}?
ask cond: When should one {act}? | In what case should one {act}?
frame before=act after=act hands=stuff
say Before you {before}, wash your hands with {hands}. After it, {after}.
say First wash with {hands}, then {before}, and last {after}.
ask before: What does one do after washing? | What comes between washing and the end?
ask after: What comes last? | What should one do at the end? | What is to be done after all else?
ask hands: With what should one wash? | What should one wash with first?
frame from=time to=time from2=time to2=time day=days
say Hours: {from} to {to}, on {day} {from2} to {to2}.
say Open from {from} till {to}. {Day} are different: {from2} till {to2}.
ask to: Until when is it open as a rule? | Till when is it open on most days? | When does it close on most days?
ask to2: Until when is it open on {day}? | When does it close on {day}?
ask from: When does it open on most days? | From when is it open as a rule?
ask from2: When does it open on {day}? | From when is it open on {day}?
ask day: Which days are different? | On what days are the hours different?
form messages left on a desk
part reader=first by=person
open For {reader}. Taken down by {by}.
open While you were out, {reader} ({by} at the desk):
ask by: Who took down the messages for {reader}? | ~ Who took the messages? | Who was at the desk?
ask reader: ~ For whom are the messages? | For whom did {by} take down messages?
frame who=titled phone=phone about=n time=time
say {time}: {who} rang about the {about}. Please call back, {phone}.
say {who} (about the {about}, {time}). Number: {phone}.
ask who: Who rang about the {about}? | Who wants to be called back because of the {about}? | Whose number is {phone}?
ask about: About what did {who} ring? | What did {who} ring about? | What does {who} want to talk about?
ask phone: Under what number can {who} be called back? | What is {who}'s number?
ask time: When did {who} ring? | At what time did {who} ring?
frame who=who thing=n where=spot when=soon
say {who} has left a {thing} for you {where}, and wants it back {when}.
say There is a {thing} {where}. It is {who}'s; please return it {when}.
ask who: Who left the {thing}? | Whose is the {thing}? | To whom must the {thing} be returned?
ask where: Where is the {thing}? | Where was the {thing} left? | Where did {who} leave the {thing}?
ask when: When does {who} want it back? | When must the {thing} be returned?
ask thing: What did {who} leave? | What must be returned to {who}?
frame old=time new=time what=event2 day=weekday why=why
say {what} on {day} is not at {old} but at {new} ({why}).
say Note: {what}, {day}, {new}. Not {old}, as we said; {why}.
ask new: At what time is {what} now? | When on {day} is {what}? | At what time is it in fact?
ask old: At what time was {what} to be at first? | What time was said before?
ask why: Why was the time changed? | Why is it not at {old}? | For what reason is {what} at another time?
ask day: On which day is {what}?
frame who=first likes=stuff hates=stuff not=titled
say {who} comes to dinner: loves {likes}, hates {hates}, and must not sit beside {not}.
say Dinner with {who}. Not too near {not}, please! And no {hates}; {likes} is always right.
ask likes: What does {who} love? | What is always right for {who}? | What should {who} be given?
ask hates: What does {who} hate? | What should {who} not be given?
ask not: Beside whom must {who} not sit? | Who should not be near {who}?
form leaflet of a remedy
part name=name2 maker=firm
open {name} drops: what you should know
open {name} ({maker})
open Please read this before you take {name}
ask name: ~ What is the remedy called? | ~ What is the name of the remedy?
frame n=few often=often with=stuff not=stuff
say Take {n} drops {often}, with {with}. It must never be taken with {not}.
say {N} drops, {often}. {With} goes well with it, {not} does not.
ask n: How many drops should one take? | How many drops of {name} does one take at once?
ask often: How often should one take them? | How often does one take {name}?
ask with: With what should one take {name}? | What goes well with it?
ask not: With what must it not be taken? | What does not go well with {name}? | What should one not take with it?
frame for=ailment also=ailment no=ailment
say {name} helps with {for}; some say that it helps with {also}, which is not proved. Against {no} it does nothing.
say It was made for {for}. It is useless against {no}. Whether {also} is cured by it, no one knows for sure.
ask for: With what does {name} help? | For what was it made? | What is it for? | Against what does it help for certain?
ask no: Against what does it do nothing? | Against what is it useless? | With what does {name} not help?
ask also: Of what is it not proved? | What may be cured by it, though nobody knows? | With what may it help?
frame who=ns age=few hold=hall time=dur
say Not for children under {age}. Keep it in {hold}; once opened it lasts {time}.
say Keep it away from {who} and from children below {age}. In {hold} an open bottle is good for {time}.
ask age: From what age on may one take it? | Under which age may children not have it? | For children under what age is it not?
ask time: How long does it last once opened? | For how long is an open bottle good?
ask hold: Where should it be kept? | In what should one keep it? | Where should one keep an open bottle?
frame mix=stuff with=stuff share=few
say {name} is made from {mix} and {with}, {share} parts of the former to one of the latter, by {maker}.
say {maker} makes it of {share} parts of {mix} and one part of {with}.
ask mix: Of what are there {share} parts? | What is most of it made from? | Of what does it have more?
ask with: Of what is there one part? | Of what does it have less? | With what is the {mix} mixed?
ask share: How many parts of {mix} are in it? | How many parts of {mix} come to one of {with}?
ask maker: Who makes {name}? | Which firm makes it? | By whom is it made?
form interview
part guest=person town=place
open A talk with {guest} of {town}
open {guest}, {town}, answers our questions
open "I am glad to talk," says {guest} of {town}.
ask town: Where does {guest} come from? | Where does {guest} live?
frame n=num thing=n first=an
say How many {thing.many} have you made? - {N}, I think. - And the first thing of all? - {First}.
say "The first thing that I ever made was {first}. By now there are {n} {thing.many}."
ask n: How many {thing.many} has {guest} made? | How many {thing.many} are there by now?
ask first: What did {guest} make first of all? | What was the first thing that {guest} made?
frame who=titled what=noun saying=saying think=an
say What did you think of {who} at first? - I took [him|her] for {think}. - And now? - We share a {what}.
say At first I thought that {who} was {think}, but today I would lend [him|her] my {what}.
ask think: What did {guest} think of {who} at first? | For what did {guest} take {who}? | What did {guest} believe {who} to be?
ask what: What does {guest} share with or would lend to {who}? | What do {guest} and {who} have in common or may one lend the other?
frame why=cause a=building b=building
say Why did you leave {a} for {b}? - {Why}. Would you have stayed?
say "I am at {b} now and no longer at {a}. {Why}, that was too much for me."
ask why: Why did {guest} leave {a}? | What was too much for {guest}? | What drove {guest} away from {a}?
ask b: Where is {guest} now? | For what did {guest} leave {a}? | Where did {guest} go from {a}?
ask a: Where was {guest} before {b}? | What did {guest} leave?
frame dream=act never=act money=money
say If you had {money}? - I would {dream}. - And what would you not do for it? - {Never}.
say "With {money} I would {dream}. But for all the money in the world I would not {never}."
ask dream: What would {guest} do with {money}? | What does {guest} dream of doing? | What would {guest} do with the money?
ask never: What would {guest} never do? | What would {guest} not do for money?
ask money: How much would {guest} need to {dream}? | With how much money would {guest} {dream}?
frame up=time first=act then=act drink=stuff
say When do you get up? - At {up}. I {first}, and only then do I drink my {drink}.
say "Up at {up}, then a cup of {drink}; but not before I {first}."
ask up: When does {guest} get up? | At what time is {guest} up?
ask first: What does {guest} do before drinking {drink}? | What comes before the {drink}? | What does {guest} do first?
ask drink: What does {guest} drink in the morning? | What is in {guest}'s cup? | What does {guest} drink then?
form house to let or to buy
part place=name2 owner=firm
open {place} House, offered by {owner}
open To let: {place} Cottage. {owner}
open {owner} offers: {place} Villa
ask owner: Who offers {place}? | Which firm offers {place}? | By whom is {place} offered?
frame n=few rooms=ns below=noun above=ns
say Below there are a {below} and the kitchen, above that {n} {rooms}; under the roof live {above}.
say {N} {rooms} upstairs, a {below} downstairs. The roof belongs to the {above}.
ask n: How many {rooms} are upstairs? | How many {rooms} are there in {place}?
ask below: What is downstairs? | What is below, besides the kitchen?
ask above: What lives under the roof? | To whom does the roof belong? | What is under the roof?
frame way=way what=building bus=num min=short
say {What} lies {way} off; bus {bus} takes {min} to the station.
say It is {way} to {what}, and {min} to the station (bus {bus}).
ask way: How far is it to {what}? | How far off is {what}?
ask min: How long does the bus take to the station? | How long is it to the station?
ask bus: Which bus goes to the station? | What is the number of the bus?
frame price=money less=money cond=cond
say {Price} a month, heating included. Without heating {less}.
say Without heating it is {less}; with it, {price}.
ask price: What does it cost with heating? | How much is it with heating?
ask less: What does it cost without heating? | How much is it if one heats oneself? | How much is it without heating?
frame bad=noun since=past who=who
say We do not hide it: the {bad} has been broken since {since}, and {who} is to mend it.
say One fault there is. Since {since} nobody has seen the {bad} work. {who} has promised to look at it.
ask bad: What is broken? | What does not work? | What fault is there? | What needs mending?
ask since: Since when is the {bad} broken? | Since when does the {bad} not work?
ask who: Who is to mend the {bad}? | Who has promised to look at it?
"""
