"""Classes that are fatal in small amounts or react violently, as patterns to recognise and refuse.

The line is drawn at GHS acute toxicity category 1 or 2 (H300, H310, H330), spontaneous ignition (H250), and classes
that are known for it. Ordinary toxic reagents (categories 3 and 4) pass.
"""

from __future__ import annotations

from sciagent.domain.outcomes import Reason
from sciagent_verifiers.fast.hazards.rule import Rule

_GHS = "GHS acute toxicity category 1 or 2 (Regulation (EC) 1272/2008, Annex VI, table 3)"
_M7 = "ICH M7(R2), cohort of concern"
_PYROPHORIC = "GHS H250 (Regulation (EC) 1272/2008, Annex VI, table 3)"
_OXO = "$([#15]~[#8X1,#16X1,#34X1])"
_CONVENTION = "UN Single Convention on Narcotic Drugs, Schedules I and IV"


def _rule(
    name: str,
    source: str,
    reason: str,
    *smarts: str,
    max_heavy: int | None = None,
    without: tuple[str, ...] = (),
    at_least: int = 1,
    first: str = "",
    **needs: int,
) -> Rule:
    return Rule(
        name,
        Reason.ACUTE_HAZARD,
        reason,
        source,
        smarts,
        needs=needs,
        max_heavy=max_heavy,
        without=without,
        at_least=at_least,
        first=first,
    )


RULES: tuple[Rule, ...] = (
    # phosphorus
    _rule(
        "organophosphorus-fluoride", _GHS, "fluorine on phosphorus(V) with organic groups; inhibits cholinesterase",
        f"[#15;$([#15]-F);$([#15]-[#6,$([#8,#16]-[#6]),$([#7])]);{_OXO}]", P=1, F=1,
    ),
    _rule(
        "nitrophenyl-phosphate-triester", _GHS, "a dialkyl nitrophenyl (thio)phosphate; inhibits cholinesterase",
        f"[#15;$([#15](-[#8]-[CX4])-[#8,#6,#7]-[#6]);$([#15]-[#8]-c:c:c:c-[#7](~[#8])~[#8]);{_OXO}]", P=1, N=1, O=5,
    ),
    _rule(
        "tetraalkyl-pyrophosphate", _GHS, "a fully esterified pyrophosphate; inhibits cholinesterase",
        "[#15](-[#8]-[CX4])(-[#8]-[CX4])(~[#8X1,#16X1])-[#8,#16]-[#15](-[#8]-[CX4])(-[#8]-[CX4])~[#8X1,#16X1]",
        P=2, O=5,
    ),
    _rule(
        "caged-phosphate", _GHS, "a bicyclic phosphate or phosphite with an alkyl group at the bridgehead",
        "[#15]12-[#8]-[CX4H2]-[#6X4;!$([#6]-[CX4]-[#8H1])](-[#6])(-[CX4H2]-[#8]-1)-[CX4H2]-[#8]-2", P=1, O=3,
    ),
    # sulfur, nitrogen and oxygen alkylators
    _rule(
        "haloethyl-sulfide", _GHS, "a 2-haloethyl thioether, an alkylator like the sulfur mustards",
        "[Cl,Br,I]-[CX4H2,CX4H1]-[CX4H2,CX4H1]-[SX2]-[#6;!$([#6]=[#8,#16,#7])]", S=1, X=1, max_heavy=20,
    ),
    _rule(
        "bis-haloethyl-amine", _GHS, "a bis(2-haloethyl)amine, an alkylator like the nitrogen mustards",
        "[Cl,Br,I]-[CX4H2,CX4H1]-[CX4H2,CX4H1]-[#7]-[CX4H2,CX4H1]-[CX4H2,CX4H1]-[Cl,Br,I]", X=2, N=1,
    ),
    _rule(
        "halomethyl-ether", _GHS, "a small halomethyl ether",
        "[Cl,Br,I]-[CX4H2]-[#8]-[CX4H2,CX4H3]", X=1, O=1, max_heavy=6,
    ),
    _rule("aziridine", _GHS, "ethyleneimine or methylaziridine", "[#7;H1]1-[CX4]-[CX4]-1", N=1, C=2, max_heavy=4),
    _rule("alkyl-fluorosulfonate", _GHS, "an alkyl fluorosulfonate", "[#6]-[#8]-[#16](~[#8])(~[#8])-F", S=1, F=1, O=3),
    _rule("dimethyl-sulfate", _GHS, "dimethyl sulfate", "[CH3]-[#8]-[#16](~[#8X1])(~[#8X1])-[#8]-[CH3]", S=1, O=4),
    # acyl and cyano halides, and what releases cyanide
    _rule("carbonyl-dihalide", _GHS, "phosgene or a kin of it", "[F,Cl,Br,I]-[#6X3](=[#8,#16])-[F,Cl,Br,I]", X=2),
    _rule(
        "phosgene-source", _GHS, "a trichloromethyl carbonate: sets phosgene free",
        "[#6](-Cl)(-Cl)(-Cl)-[#8]-[#6](=[#8])-[Cl,#8]", Cl=3, O=2,
    ),
    _rule("phosgene-oxime", _GHS, "a dihaloformaldoxime", "[Cl,Br,I]-[#6X3](-[Cl,Br,I])=[#7]-[#8]", X=2, N=1, O=1),
    _rule("cyanogen-halide", _GHS, "a cyanogen halide", "[F,Cl,Br,I]-[CX2]#[NX1]", X=1, N=1),
    _rule("small-isocyanate", _GHS, "methyl or ethyl isocyanate", "[CX4]-[#7]=[#6]=[#8]", N=1, O=1, max_heavy=5),
    _rule("small-ketene", _GHS, "ketene or methylketene", "[#6]=[CX2]=[OX1]", C=2, O=1, max_heavy=4),
    _rule(
        "small-cyanohydrin", _GHS, "a small cyanohydrin: sets hydrogen cyanide free",
        "[#8H1]-[CX4]-C#N", C=2, N=1, O=1, max_heavy=6,
    ),
    _rule(
        "perhalomethyl-thiol", _GHS, "a trichloromethanesulfenyl halide",
        "Cl-[#6](-Cl)(-Cl)-[SX2]-[Cl,Br]", Cl=3, S=1,
    ),
    # fluoroacetates
    _rule(
        "fluoroacetate", _GHS, "fluoroacetic acid or what the body turns into it",
        "F-[CH2]-[#6X3](~[#8])~[#8,F,Cl,Br,SX2,$([NH2]),$([NH])]", "F-[CH2]-[CH1]=O", "F-[CH2]-[#6]#N",
        "F-[CH2]-[CH2]-[#8H1]",
        F=1, C=2, max_heavy=12,
    ),
    # metals and metalloids
    _rule("organomercury", _GHS, "carbon on mercury", "[Hg]~[#6]", Hg=1, C=1),
    _rule("organolead", _GHS, "carbon on lead", "[Pb]~[#6]", Pb=1, C=1),
    _rule("thallium", _GHS, "thallium", "[Tl]", Tl=1),
    _rule("organocadmium", _GHS, "carbon on cadmium", "[Cd]~[#6]", Cd=1, C=1),
    _rule("beryllium", _GHS, "beryllium", "[Be]", Be=1),
    _rule(
        "small-organotin", _GHS, "a trimethyl or triethyl tin",
        "[Sn](-[CH3])(-[CH3])-[CH3]", "[Sn](-[CH2][CH3])(-[CH2][CH3])-[CH2][CH3]", Sn=1, C=3,
    ),
    _rule("volatile-oxide", _GHS, "osmium or ruthenium tetroxide", "[Os,Ru](=O)(=O)(=O)=O", M=1, O=4),
    _rule(
        "metal-carbonyl", _GHS, "a volatile carbonyl of nickel, iron or cobalt",
        "[Ni,Fe,Co]~[CX2]~[#8X1]", at_least=4, M=1, O=4,
    ),
    _rule("arsine", _GHS, "arsenic bonded to hydrogen", "[#33;H1,H2,H3,H4]", As=1, without=("[#33]~[#8]",)),
    _rule("arsenic-halide", _GHS, "halogen or cyanide on arsenic", "[#33]-[F,Cl,Br,I]", "[#33]-C#N", As=1),
    _rule(
        "arsenic-iii-oxide", _GHS, "an oxide or acid of arsenic(III)",
        "[#33X3;H0](-,=[#8])(-,=[#8])-,=[#8]", "[#33X2](=[#8])-[#8]", As=1, O=2,
    ),
    _rule("stibine", _GHS, "antimony bonded to hydrogen", "[#51;H1,H2,H3,H4]", Sb=1),
    _rule("small-phosphine", _GHS, "phosphine or a small alkyl phosphine", "[#15X3;H3,H2]", P=1, max_heavy=3),
    _rule("selane", _GHS, "hydrogen selenide or telluride", "[#34H2,#52H2]", max_heavy=1),
    _rule(
        "tellurium-hexafluoride", _GHS, "a hexafluoride of selenium, tellurium, tungsten or uranium",
        "[Se,Te,W,U](F)(F)(F)(F)(F)F", F=6,
    ),
    _rule(
        "pyrophoric-alkyl-metal", _PYROPHORIC, "an alkyl of a metal that ignites in air",
        "[Li,Na,K,Rb,Cs,Zn,Al,Ga,In]-[CX4]", M=1, C=1,
    ),
    _rule("boron-hydride", _GHS, "a small borane", "[B;H2,H3]", B=1, max_heavy=6, without=("[#5]~[#6,#7,#8,#15,#16]",)),
    _rule("halogen-fluoride", _GHS, "fluorine, a halogen fluoride or an oxygen fluoride", "F-[F,Cl,Br,#8]", F=1),
    _rule(
        "sulfur-fluoride", _GHS, "a fluoride of sulfur(IV), or disulfur decafluoride",
        "[SX4](F)(F)(F)F", "S(F)(F)(F)(F)(F)-S(F)(F)(F)(F)F", S=1, F=4,
    ),
    # carcinogens that act in very small amounts
    _rule(
        "nitrosamine", _M7, "an N-nitroso compound",
        "[#6]-[#7X3](-[#6])-[#7X2]=[#8]", first="[#7]~[#7]", N=2, O=1, C=2,
    ),
    _rule("azoxyalkane", _M7, "an alkyl azoxy compound", "[CX4]-[#7](~[#8X1])=[#7]-[#6]", first="[#7]~[#7]", N=2, O=1),
    _rule(
        "aflatoxin", _M7, "the dihydrobisfuran of aflatoxins",
        "[#6]1=,-[#6]-[#6]2-c:c-[#8]-[#6]-2-[#8]-1", O=3, C=12,
    ),
    _rule(
        "chlorinated-dioxin", _GHS, "a dibenzodioxin or dibenzofuran with halogens at 2, 3, 7 and 8",
        "[Cl,Br]-c1cc2Oc3cc([Cl,Br])c([Cl,Br])cc3Oc2cc1[Cl,Br]", "[Cl,Br]-c1cc2oc3cc([Cl,Br])c([Cl,Br])cc3c2cc1[Cl,Br]",
        "[Cl,Br]-c1cc2oc3cc([Cl,Br])c([Cl,Br])cc3oc2cc1[Cl,Br]",
        X=4, O=1,
    ),
    # nerve and respiration
    _rule(
        "oxime-carbamate", _GHS, "an N-methylcarbamate of an oxime; inhibits cholinesterase",
        "[CH3]-[#7]~[#6](~[#8;X1,H1])-[#8]-[#7]=[#6]", first="[#7]~[#8]", N=2, O=2,
    ),
    _rule(
        "fentanyl-class", _CONVENTION, "an N-acyl-4-anilinopiperidine opioid",
        "[#6,#8]-[#6](=[#8])-[#7](-a)-[#6]1-[#6]-[#6]-[#7;X3,X4](-[CX4])-[#6]-[#6]-1",
        first="[#7]-[#6]1-[#6]-[#6]-[#7]-[#6]-[#6]-1", N=2, O=1, C=14,
    ),
    _rule(
        "nitazene-class", _CONVENTION, "a 1-(2-aminoethyl)-2-benzylbenzimidazole opioid",
        "[#7;X3,X4](-[CX4])-[CX4]-[CX4]-n1c(-[CX4]-c)nc2ccccc12", N=3, C=16,
    ),
    _rule(
        "halomethyl-ketone", _GHS, "a small halomethyl ketone", "[Cl,Br,I]-[CH2]-[#6](=[#8])-[CH3]", O=1, X=1,
        max_heavy=6,
    ),
)  # fmt: skip
