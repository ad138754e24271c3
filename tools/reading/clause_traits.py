"""What things, persons, animals, events and buildings are like. A line:

    classes | predicate; predicate | kind of value | question / question

{v} is the value, {s} the subject, {ps} its possessive; a verb in <> agrees with the subject. A predicate that begins
with ! is a sentence of its own. `part` lines are about a part of a thing, whose name comes first."""

import re

TRAITS = """
furniture machines fittings | <is> {v} wide; <has> a width of {v} | length | How wide <is> {s}? / What is the width of {s}?
furniture machines fittings vessels | <is> {v} high; <stand> {v} high | length | How high <is> {s}? / What is the height of {s}? / How tall <is> {s}?
furniture machines | <is> {v} deep; <measure> {v} from front to back | length | How deep <is> {s}? / What is the depth of {s}?
instruments vehicles tools clothes | <is> {v} long; <has> a length of {v} | length | How long <is> {s}? / What is the length of {s}?
furniture machines vehicles instruments vessels valuables animals | <weigh> {v}; <is> {v} in weight | weight | How much <does> {s} weigh? / What <does> {s} weigh? / How heavy <is> {s}?
furniture machines vehicles instruments vessels valuables clothes works | <cost> {v}; <is> on sale for {v}; <sell> for {v} | price | How much <does> {s} cost? / What <does> {s} cost? / What is the price of {s}?
furniture machines vehicles clothes | <cost> {v} to deliver; ! Delivery of {s} costs {v}.; ! Delivery of {s} is {v} more. | price | What does delivery of {s} cost? / How much is the delivery of {s}?
furniture vessels instruments tools clothes valuables | <is> made of {v}; <is> of {v}; <consist> of {v} | material | What <is> {s} made of? / Of what <is> {s} made? / What material <is> {s} of? / What do they make {s} of?
furniture machines vehicles clothes vessels papers instruments valuables | <is> {v}; <is> {v} in colour; <is> painted {v} | colour | What colour <is> {s}? / Of what colour <is> {s}? / In what colour <is> {s}?
furniture machines vehicles instruments vessels valuables | <is> made by {v}; <come> from {v}; ! The maker of {s} is {v}.; <is> a product of {v} | firm | Who <make> {s}? / By whom <is> {s} made? / Which firm makes {s}? / Who is the maker of {s}?
furniture machines vehicles instruments vessels valuables clothes | <is> made in {v}; <is> built in {v}; <come> from a factory in {v} | town | Where <is> {s} made? / In which town <is> {s} made? / Where do they make {s}?
furniture vehicles | <hold> {v} people; <seat> {v}; <has> room for {v} | number | How many people <does> {s} hold? / How many people can {s} seat? / For how many people <has> {s} room?
furniture vehicles fittings | <bear> {v}; <carry> up to {v}; <must> not be loaded with more than {v} | weight | How much <does> {s} bear? / What load <does> {s} carry? / How much may be loaded on {s}?
vessels | <hold> {v}; <has> room for {v} | litres | How much <does> {s} hold? / What does {s} hold? / How many litres does {s} hold?
machines | <hold> {v}; <take> {v} of water | litres | How much water <does> {s} hold? / How much water <does> {s} take?
machines | <make> a noise of {v}; <is> as loud as {v}; <run> at {v} | decibels | How loud <is> {s}? / How much noise <does> {s} make?
machines vehicles | <use> {v}; <need> {v} | power | How much power <does> {s} use? / How much power <does> {s} need? / What power <does> {s} need?
machines vehicles furniture | <is> guaranteed for {v}; <has> a guarantee of {v} | years | How long <is> {s} guaranteed? / For how long <is> {s} guaranteed? / How long is the guarantee on {s}?
machines furniture clothes vehicles | ! The order number of {s} is {v}.; <has> the order number {v}; <is> listed as {v} | code | What is the order number of {s}? / Under what number <is> {s} listed?
machines | <need> {v} to warm up; <is> ready after {v}; <take> {v} to heat up | short | How long <does> {s} take to warm up? / After what time <is> {s} ready? / How long do people wait until {s} <is> ready?
machines furniture | <take> {v} to put together; ! It takes {v} to put {s} together. | short | How long does it take to put {s} together? / How much time does it take to assemble {s}?
machines vehicles | <is> to be oiled {v}; <must> be oiled {v}; <need> a drop of oil {v}; ! Oil {s} {v}. | frequency | How often should {s} be oiled? / How often <does> {s} need oil?
machines furniture vessels | <must> be cleaned {v}; ! Clean {s} {v}.; <want> a wash {v} | frequency | How often should {s} be cleaned? / How often must one clean {s}?
machines furniture vessels clothes instruments valuables | ! Do not use {v} on {s}.; ! Never clean {s} with {v}.; <must> not be cleaned with {v}; <do> not like {v} | stuff | What should not be used on {s}? / What must not be used on {s}? / With what must {s} not be cleaned?
machines furniture vessels clothes instruments | ! Clean {s} with {v}.; ! A little {v} removes stains from {s}.; <is> best cleaned with {v} | stuff2 | With what should {s} be cleaned? / What removes stains from {s}? / What <is> {s} cleaned with? / What should one clean {s} with?
machines clothes instruments papers valuables tools | <must> be kept {v}; ! Keep {s} {v}.; <belong> {v} | holder | Where must {s} be kept? / Where <is> {s} kept? / Where <do> {s} belong?
clothes papers valuables tools instruments vessels works | <is> {v}; <lie> {v}; <has> been {v} since then; ! One will find {s} {v}. | holder | Where <is> {s}? / Where <does> {s} lie? / Where can {s} be found? / Where should one look for {s}?
clothes furniture instruments works valuables vehicles | <is> {v} old; <has> been in use for {v}; ! The age of {s} is {v}. | years | How old <is> {s}? / What is the age of {s}?
valuables works instruments furniture | <was> made in {v}; <date> from {v}; ! On {s} stands the year {v}. | year | When <was> {s} made? / From which year <is> {s}? / What is the date of {s}?
valuables works instruments papers clothes tools vehicles | <belong> to {v}; <is> the property of {v}; ! The owner of {s} is {v}. | person | To whom <does> {s} belong? / Who owns {s}? / Whose property <is> {s}? / Whose <is> {s}?
valuables works instruments furniture | <is> by {v}; <is> the work of {v}; <is> signed by {v} | person | Who made {s}? / By whom <is> {s}? / Whose work <is> {s}?
valuables works papers instruments vehicles | <is> worth {v}; <is> insured for {v}; <has> been valued at {v} | price | What <is> {s} worth? / How much <is> {s} worth? / At how much has one valued {s}?
valuables clothes vessels furniture instruments | <is> shaped like {v}; <has> the shape of {v}; <look> like {v} | shape | What <is> {s} shaped like? / What shape <has> {s}? / What <does> {s} look like?
vehicles valuables instruments works | <is> called {v}; <has> the name {v}; <bear> the name {v} | name | What <is> {s} called? / What is the name of {s}? / What name <does> {s} bear?
valuables clothes papers works | <was> found {v}; <lay> {v} when somebody found <it> | holder | Where <was> {s} found? / Where <was> {s} discovered?
papers | <has> {v} pages; <run> to {v} pages | number | How many pages <has> {s}? / How many pages <does> {s} run to?
papers | <is> in {v}; <is> written in {v} | tongue | In what language <is> {s}? / What language <is> {s} written in?
papers | <is> about {v}; <deal> with {v} | topic | What <is> {s} about? / With what <does> {s} deal? / What is the subject of {s}?
papers | <is> valid until {v}; <expire> on {v} | date | Until when <is> {s} valid? / When <does> {s} expire?
papers | <is> dated {v}; <bear> the date of {v} | date | What is the date of {s}? / What date <does> {s} bear?
papers | <is> signed by {v}; <bear> the signature of {v} | person | Who signed {s}? / Whose signature <does> {s} bear? / By whom <was> {s} signed?
papers | <is> for {v}; <is> made out for {v} | price | How much <is> {s} for? / What sum <is> {s} for? / For how much <is> {s}?
papers | <is> addressed to {v}; <is> meant for {v} | person | To whom <is> {s} addressed? / For whom <is> {s}?
food dishes | <serve> {v}; <is> enough for {v} people; <feed> {v} | number | How many people <does> {s} serve? / For how many people <is> {s}? / How many people <does> {s} feed?
food dishes | <keep> for {v}; <last> {v} in a cool place; <stay> fresh for {v} | days | How long <does> {s} keep? / For how long <does> {s} keep? / How long <does> {s} last?
dishes | <is> baked for {v}; <need> {v} in the oven; <take> {v} to bake | short | How long <is> {s} baked? / How long <does> {s} need in the oven?
dishes | <is> eaten with {v}; <go> well with {v}; <is> served with {v} | food | What <is> {s} eaten with? / With what <is> {s} served? / What <go> well with {s}?
dishes | <owe> {ps} colour to {v}; <get> {ps} colour from {v}; ! It is {v} that makes {s} so dark. | food | What makes {s} dark? / To what <does> {s} owe {ps} colour? / What gives {s} {ps} colour?
dishes | <is> called {v}; <go> by the name of {v} | name | What <is> {s} called? / By what name <does> {s} go?
dishes | <smell> of {v}; <taste> of {v} | food | What <does> {s} smell of? / Of what <does> {s} smell?
animals | <is> called {v}; <answer> to {v}; <answer> to the name of {v} | name | What <is> {s} called? / What is the name of {s}? / To what name <does> {s} answer?
animals | <eat> nothing but {v}; <live> on {v}; <is> fed on {v}; <will> do anything for {v} | bite | What <does> {s} eat? / On what <does> {s} live? / What <is> {s} fed on?
animals | <sleep> {v}; <spend> the night {v}; <hide> {v} | holder | Where <does> {s} sleep? / Where <does> {s} spend the night?
animals | <is> {v} old; <has> reached the age of {v} | years | How old <is> {s}? / What is the age of {s}?
animals | <is> afraid of {v}; <fear> nothing but {v}; <run> away from {v} | fear | What <is> {s} afraid of? / Of what <is> {s} afraid? / What <does> {s} fear?
animals | <belong> to {v}; <is> owned by {v} | person | Whose <is> {s}? / To whom <does> {s} belong? / Who owns {s}?
animals | <say> "{v}" whenever the bell rings; <has> learned to say "{v}"; <can> say "{v}" | saying | What <does> {s} say? / What can {s} say? / What has {s} learned to say?
animals | <was> last seen {v}; ! Somebody saw {s} {v}. | place | Where <was> {s} last seen? / Where <was> {s} seen?
buildings | <was> built in {v}; <date> from {v} | year | When <was> {s} built? / In which year <was> {s} built? / From what year <is> {s}?
buildings | <was> {v} until the war; <used> to be {v}; <was> once {v} | building | What <was> {s} before? / What did {s} use to be? / What was {s} once?
buildings | <belong> to {v}; <is> owned by {v} | person | Who owns {s}? / To whom <does> {s} belong?
buildings | <has> {v} rooms; <contain> {v} rooms | number | How many rooms <has> {s}? / How many rooms are there in {s}?
buildings | <seat> {v}; <hold> {v} people | count | How many people <does> {s} hold? / How many people can sit in {s}?
buildings | <was> designed by {v}; <was> built by {v} | person | Who built {s}? / By whom <was> {s} designed? / Who designed {s}?
buildings | <is> closed {v}; <is> open every day except {v}; <keep> {ps} doors shut {v} | days_off | On which day <is> {s} closed? / When <is> {s} closed? / On what day <is> {s} not open?
buildings | <open> at {v}; <is> open from {v} | hour | When <does> {s} open? / At what time <does> {s} open? / From what time <is> {s} open?
buildings | <close> at {v}; <is> open until {v} | hour | When <does> {s} close? / At what time <does> {s} close? / Until when <is> {s} open?
buildings | <stand> {v}; <lie> {v}; <is> {v} | place | Where <is> {s}? / Where <does> {s} stand? / Where <does> {s} lie?
buildings | <is> {v} high; <has> a height of {v} | metres | How high <is> {s}? / What is the height of {s}? / How tall <is> {s}?
buildings | ! Entrance to {s} is {v}.; <charge> {v} for entrance; <cost> {v} to enter | price | What does entrance to {s} cost? / How much is the entrance to {s}? / How much <does> {s} charge for entrance?
buildings | ! The rent of {s} is {v} a month.; <is> let for {v} a month | price | How much is the rent of {s}? / What is the monthly rent of {s}? / For how much <is> {s} let?
buildings | <is> let for {v}; <is> rented out for {v} | months | How long <is> {s} let? / For how long <is> {s} rented out?
buildings | ! The key to {s} is kept by {v}.; ! {v} has the key to {s}.; ! Whoever wants to see {s} asks {v} for the key. | person | Who has the key to {s}? / Whom does one ask for the key to {s}? / By whom is the key to {s} kept?
buildings events | ! The telephone number of {s} is {v}.; <can> be reached under {v} | phone | What is the telephone number of {s}? / Under which number can one reach {s}?
events | <take> place on {v}; <is> on {v}; <will> be held on {v} | date | When <is> {s}? / On what day <is> {s}? / When do they hold {s}? / On what date <does> {s} take place?
events | <begin> at {v}; <start> at {v} | hour | At what time <does> {s} begin? / When <does> {s} start? / At what hour <does> {s} begin?
events | <end> at {v}; <is> over at {v}; <close> at {v} | hour | When <does> {s} end? / At what time <is> {s} over?
events | <take> place {v}; <is> held {v}; <will> be {v} | place | Where <is> {s}? / Where <does> {s} take place? / Where <is> {s} held?
events | <last> {v}; <go> on for {v} | duration | How long <does> {s} last? / For how long <does> {s} go on?
events | <is> organised by {v}; <is> run by {v}; <is> led by {v} | person | Who organises {s}? / By whom <is> {s} run? / Who <lead> {s}? / Who runs {s}?
events | <cost> {v} a head; ! A ticket for {s} costs {v}.; ! Entrance to {s} is {v}. | price | What does a ticket for {s} cost? / How much does it cost to go to {s}? / How much is the entrance to {s}?
events | <is> expected to draw {v} people; ! For {s} {v} people have put down their names.; <has> places for {v} people | count | How many people are expected at {s}? / For how many people <has> {s} places?
events | ! {v} brings the chairs for {s}.; ! The chairs for {s} come from {v}. | person | Who brings the chairs for {s}? / From whom are the chairs for {s}?
events | ! {v} must be brought to {s}.; ! Whoever comes to {s} should bring {v}. | a_thing | What should be brought to {s}? / What must one bring to {s}?
events | <is> in aid of {v}; <raise> money for {v} | the_object | What <does> {s} raise money for? / In aid of what <is> {s}?
events | ! Names for {s} are taken by {v}.; ! Whoever wants to come to {s} should write to {v}. | person | To whom should one write about {s}? / Who takes the names for {s}?
person | <is> {v} old; <has> reached the age of {v}; <will> be {v} old in May | years | How old <is> {s}? / What is the age of {s}? / What age <is> {s}?
person | <was> born in {v}; <come> from {v}; <grew> up in {v} | town | Where <was> {s} born? / Where <does> {s} come from? / From which town <is> {s}? / Where did {s} grow up?
person | <was> born on {v}; <keep> {ps} birthday on {v} | date | When <was> {s} born? / When is the birthday of {s}? / On what day <was> {s} born?
person | <is> married to {v}; ! The husband or wife of {s} is {v}. | person | To whom <is> {s} married? / Who is married to {s}?
person | <has> {v} children; <is> the parent of {v} children | few | How many children <has> {s}? / How many children <does> {s} have?
person | <has> {v} brothers and sisters; <grew> up with {v} brothers and sisters | few | How many brothers and sisters <has> {s}?
person | <speak> {v}; <is> fluent in {v}; <has> learned {v} | tongue | What language <does> {s} speak? / Which language <does> {s} know? / In what language <is> {s} fluent?
person | <play> {v}; <is> good at {v} | game | What <does> {s} play? / Which game <does> {s} play? / What <is> {s} good at?
person | <collect> {v}; <has> a collection of {v} | collection | What <does> {s} collect? / Of what <has> {s} a collection?
person | <is> afraid of {v}; <is> terrified of {v}; <can> not bear {v} | fear | What <is> {s} afraid of? / Of what <is> {s} afraid?
person | <is> allergic to {v}; <do> not eat {v}; <can> not stand {v} | food | What <do> {s} not eat? / To what <is> {s} allergic? / What can {s} not stand?
person | <work> as {v}; <is> {v} by trade; <earn> {ps} living as {v} | trade | What <does> {s} work as? / What is the trade of {s}? / What <is> {s} by trade? / As what <does> {s} work?
person | <was> {v} before; <used> to work as {v}; <started> out as {v} | trade | What <was> {s} before? / As what did {s} start out? / What did {s} use to be?
person | <work> for {v}; <is> employed by {v} | firm | For whom <does> {s} work? / Who employs {s}? / By whom <is> {s} employed?
person | <earn> {v} a week; <is> paid {v} a week | price | How much <does> {s} earn? / What <is> {s} paid a week? / How much <is> {s} paid?
person | <live> at {v}; ! The address of {s} is {v}. | street | At what address <does> {s} live? / What is the address of {s}?
person | ! The telephone number of {s} is {v}.; <can> be reached under {v}; <has> the telephone number {v} | phone | What is the telephone number of {s}? / Under which number can one reach {s}?
person | <is> {v} tall; <measure> {v} | height | How tall <is> {s}? / What is the height of {s}?
person | <is> called {v} by everyone; ! Everyone calls {s} {v}.; <go> by the name of {v} | name | What <does> everyone call {s}? / What <is> {s} called by everyone? / By what name <does> {s} go?
person | <keep> {v}; <has> {v} at home; <own> {v} | pet | What animal <does> {s} keep? / What animal <has> {s} at home? / What <does> {s} keep at home?
person | <sleep> in {v}; <live> in {v}; <has> a room in {v} | the_room | Where <does> {s} have a room? / Where <does> {s} sleep? / In what <does> {s} live?
person | <has> never seen {v}; <long> to see {v}; <dream> of seeing {v} | sight | What <do> {s} long to see? / What <does> {s} dream of?
person | <has> been in {ps} post since {v}; <took> up {ps} post in {v} | year | Since when <has> {s} been in {ps} post? / When did {s} take up {ps} post?
person | <retire> after {v}; <will> retire after {v} of service | years | After how long <does> {s} retire? / How long <was> {s} in service?
person | <has> the key to {v}; <keep> the key to {v} | the_room | What <does> {s} have the key to? / To what <does> {s} have the key?
person | <read> nothing but {v}; <like> only books about {v} | topic | What <does> {s} read about? / What books <does> {s} like?
person | <is> responsible for {v}; <look> after {v} | the_object | For what <is> {s} responsible? / What <does> {s} look after?
person | <owe> the grocer {v}; <is> in debt to the bank for {v} | price | How much <does> {s} owe? / How large are the debts of {s}?
"""

PARTS = """
furniture: legs* seat back drawers* handles* top feet* castors* doors* frame hinges* shelves* corners* armrests*
machines: lid handle foot cable base motor knob switch case element door grille valve filter
vehicles: saddle tyres* frame wheels* bell seats* hood lamp pedals* basket bodywork bumper brakes*
instruments: bow strings* keys* neck case pedals* bridge mouthpiece lid body pegs*
vessels: lid handle spout rim bottom foot inside stopper
clothes: buttons* collar lining sleeves* belt hood pockets* hem cuffs*
buildings: roof floor walls* windows* doors* tower cellar stairs* gate shutters* ceiling pillars*
valuables: chain lid clasp handle case dial stem base hands*
animals: tail collar left-ear paws* nose back belly right-eye
"""

PART_TRAITS = """
furniture machines vehicles instruments vessels clothes buildings valuables | <is> made of {v}; <is> of {v} | material | What <is> {s} made of? / Of what <is> {s} made? / What material <is> {s} of?
furniture machines vehicles instruments vessels clothes buildings valuables animals | <is> {v}; <is> painted {v} | colour | What colour <is> {s}? / Of what colour <is> {s}?
furniture machines vehicles instruments vessels clothes valuables | <was> replaced by {v}; <was> repaired by {v} | person | Who replaced {s}? / By whom <was> {s} repaired?
furniture machines vehicles instruments vessels | <is> shaped like {v}; <look> like {v} | shape | What <is> {s} shaped like? / What <does> {s} look like?
furniture machines vehicles instruments buildings valuables | <come> from {v}; <was> made in {v} | town | Where <do> {s} come from? / Where <was> {s} made?
furniture machines vehicles vessels | <is> guaranteed for {v} | years | How long <is> {s} guaranteed?
furniture machines vehicles vessels instruments | <cost> {v} to replace; ! To replace {s} costs {v}.; ! New {s2} cost {v}. | price | What does it cost to replace {s}? / How much does it cost to replace {s}?
furniture machines vehicles vessels instruments buildings | <must> be oiled {v}; <must> be cleaned {v}; <is> checked {v} | frequency | How often <is> {s} looked after?
furniture machines vehicles vessels | ! Clean {s} with {v}.; <is> best cleaned with {v} | stuff | With what should {s} be cleaned? / What should {s} be cleaned with?
"""

_AGREE = {"is": ("is", "are", "am"), "was": ("was", "were", "was"), "has": ("has", "have", "have"),
          "does": ("does", "do", "do"), "do": ("does", "do", "do"), "it": ("it", "them", "me"), "will": ("will",) * 3,
          "must": ("must",) * 3, "can": ("can",) * 3, "grew": ("grew",) * 3, "used": ("used",) * 3,
          "took": ("took",) * 3, "started": ("started",) * 3, "lay": ("lay",) * 3, "lost": ("lost",) * 3,
          "won": ("won",) * 3}
_VERB = re.compile(r"<(\w+)>")


def agreeing(text, agree):
    def verb(match):
        word = match[1]
        if word in _AGREE:
            return _AGREE[word][agree]
        return word if agree else word[:-1] + "ies" if word.endswith("ry") else word + (
            "es" if word.endswith(("s", "sh", "ch", "o")) else "s")
    return _VERB.sub(verb, text)


class Trait:
    """A line, for subjects of one, of several and for I."""
    __slots__ = ("says", "kind", "asks", "key")

    def __init__(self, columns):
        says, self.kind, asks = columns
        self.says = [[agreeing(say.strip(), agree) for say in re.split(r"; ", says)] for agree in range(3)]
        self.asks = [[agreeing(ask.strip(), agree) for ask in asks.split(" / ")] for agree in range(2)]
        self.key = says


def _by_class(table):
    made = {}
    for line in table.strip().split("\n"):
        classes, *columns = [column.strip() for column in line.split(" | ")]
        trait = Trait(columns)
        for name in classes.split():
            made.setdefault(name, []).append(trait)
    return made


BY_CLASS, OF_PARTS = _by_class(TRAITS), _by_class(PART_TRAITS)
PART_NAMES = {line.split(":")[0]: line.split(":")[1].split() for line in PARTS.strip().split("\n")}
